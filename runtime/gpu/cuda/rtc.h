/* SPDX-License-Identifier: Apache-2.0
 * rtc.h - generated sources to machine code, by NVRTC.  It needs no GPU. */
#ifndef MO_CUDA_RTC_H
#define MO_CUDA_RTC_H
#include "runtime/base/sha256.h"
#include "runtime/gpu/cuda/symbols.h"

typedef struct _nvrtcProgram *mo_rtc_program;

/* X(field, symbol, arguments); results are nvrtcResult, 0 = success. */
#define MO_RTC_FUNCTIONS(X)                                                                                  \
    X(version, nvrtcVersion, (int *major, int *minor))                                                       \
    X(create, nvrtcCreateProgram,                                                                            \
      (mo_rtc_program * out, const char *source, const char *name, int n, const char *const *headers,        \
       const char *const *names))                                                                            \
    X(destroy, nvrtcDestroyProgram, (mo_rtc_program * program))                                              \
    X(compile, nvrtcCompileProgram, (mo_rtc_program program, int n, const char *const *options))             \
    X(image_size, nvrtcGetCUBINSize, (mo_rtc_program program, size_t * bytes))                               \
    X(image, nvrtcGetCUBIN, (mo_rtc_program program, char *out))                                             \
    X(log_size, nvrtcGetProgramLogSize, (mo_rtc_program program, size_t * bytes))                            \
    X(log, nvrtcGetProgramLog, (mo_rtc_program program, char *out))

struct mo_cuda_rtc {
    struct mo_cuda_object object;
    int major, minor; /* version of NVRTC */
#define MO_RTC_FIELD(field, symbol, arguments) unsigned(*field) arguments;
    MO_RTC_FUNCTIONS(MO_RTC_FIELD)
#undef MO_RTC_FIELD
};

int mo_cuda_rtc_open(struct mo_cuda_rtc *rtc, const struct mo_env *env, const char *path, moire_error *err);
void mo_cuda_rtc_close(struct mo_cuda_rtc *rtc);

/* The name of the machine code of a source: a digest of all that it depends on, NVRTC's version too. */
void mo_cuda_rtc_name(const struct mo_cuda_rtc *rtc, const char *source, int major, int minor,
                      char name[MO_SHA256_HEX]);
/* Compiles a source of program.h for a compute capability; *image is freed with mo_free().  MOIRE_ECOMPILER:
 * the first line of the compiler's complaint. */
int mo_cuda_rtc_compile(const struct mo_cuda_rtc *rtc, const char *source, int major, int minor, void **image,
                        size_t *bytes, moire_error *err);
#endif
