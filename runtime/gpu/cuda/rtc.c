/* SPDX-License-Identifier: Apache-2.0
 * rtc.c - NVRTC: the sources of a program to machine code for one GPU. */
#include "runtime/gpu/cuda/rtc.h"

#include <stdio.h>
#include <string.h>
#include "runtime/gpu/cuda/cache.h"

/* No header of the toolkit is needed: conversions of 16-bit types are single instructions. */
static const char header[] =
    "typedef unsigned int mo_index;\n"
    "#define MO_KERNEL(name, threads) extern \"C\" __global__ void __launch_bounds__(threads) name\n"
    "#define MO_DEVICE static __device__ __forceinline__\n"
    "#define MO_SHARED __shared__\n"
    "#define MO_ALIGN(n) __align__((n) > 16 ? 16 : (n))\n"
    "#define MO_SYNC() __syncthreads()\n"
    "#define MO_UNROLL _Pragma(\"unroll\")\n"
    "#define mo_inf __int_as_float(0x7f800000)\n"
    "#define mo_nan __int_as_float(0x7fffffff)\n"
    "struct mo_f16 { unsigned short bits; };\n"
    "struct mo_bf16 { unsigned short bits; };\n"
    "MO_DEVICE float mo_of_f16(mo_f16 x) {\n"
    "    float r;\n"
    "    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(r) : \"h\"(x.bits));\n"
    "    return r;\n}\n"
    "MO_DEVICE mo_f16 mo_to_f16(float x) {\n"
    "    mo_f16 r;\n"
    "    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(r.bits) : \"f\"(x));\n"
    "    return r;\n}\n"
    "MO_DEVICE float mo_of_bf16(mo_bf16 x) { return __int_as_float((int)x.bits << 16); }\n"
    "MO_DEVICE mo_bf16 mo_to_bf16(float x) {\n"
    "    mo_bf16 r;\n"
    "    unsigned b = (unsigned)__float_as_int(x);\n"
    "    r.bits = (unsigned short)(x != x ? 0x7fff : (b + 0x7fff + (b >> 16 & 1)) >> 16);\n"
    "    return r;\n}\n";

int mo_cuda_rtc_open(struct mo_cuda_rtc *rtc, const struct mo_env *env, const char *path, moire_error *err) {
    static const struct mo_cuda_symbol symbols[] = {
#define ROW(field, symbol, arguments) {#symbol, offsetof(struct mo_cuda_rtc, field)},
        MO_RTC_FUNCTIONS(ROW)
#undef ROW
    };
    static const struct mo_cuda_wanted wanted = {.file = {"libnvrtc.so.13", "libnvrtc.so.12"},
                                                 .needs = "NVRTC of CUDA 12 or 13",
                                                 .symbols = symbols,
                                                 .n_symbols = sizeof symbols / sizeof *symbols};
    int rc = mo_cuda_object_open(&rtc->object, env, path, &wanted, rtc, err);
    if (!rc && rtc->version(&rtc->major, &rtc->minor))
        rc = mo_fail(err, MOIRE_EUNSUPPORTED, "%s does not tell its version", rtc->object.file);
    return rc;
}

void mo_cuda_rtc_close(struct mo_cuda_rtc *rtc) {
    mo_cuda_object_close(&rtc->object);
}

/* The first line of the log that speaks of an error. */
static int complain(const struct mo_cuda_rtc *rtc, mo_rtc_program program, unsigned result,
                    moire_error *err) {
    const struct mo_env *env = rtc->object.env;
    size_t n = 0;
    char *log = rtc->log_size(program, &n) || !n ? NULL : mo_alloc(env, n + 1);
    const char *line = log && !rtc->log(program, log) ? strstr(log, "error") : NULL;
    mo_fail(err, MOIRE_ECOMPILER, "NVRTC %d.%d refuses a generated kernel (%u): %.200s", rtc->major,
            rtc->minor, result, line ? line : "no message");
    mo_free(env, log);
    return MOIRE_ECOMPILER;
}

static int take_image(const struct mo_cuda_rtc *rtc, mo_rtc_program program, void **image, size_t *bytes,
                      moire_error *err) {
    if (rtc->image_size(program, bytes) || !*bytes)
        return mo_fail(err, MOIRE_ECOMPILER, "NVRTC made no machine code");
    *image = mo_alloc(rtc->object.env, *bytes);
    if (!*image) return mo_fail(err, MOIRE_ENOMEM, "no memory for %zu bytes of machine code", *bytes);
    if (!rtc->image(program, *image)) return MOIRE_OK;
    mo_free(rtc->object.env, *image);
    *image = NULL;
    return mo_fail(err, MOIRE_ECOMPILER, "NVRTC hands out no machine code");
}

enum { OPTIONS = 3 };
struct options {
    char arch[48];
    const char *list[OPTIONS];
};

static void choose_options(int major, int minor, struct options *o) {
    snprintf(o->arch, sizeof o->arch, "--gpu-architecture=sm_%d%d", major, minor);
    o->list[0] = o->arch;
    o->list[1] = "--std=c++17";
    o->list[2] = "-default-device";
}

void mo_cuda_rtc_name(const struct mo_cuda_rtc *rtc, const char *source, int major, int minor,
                      char name[MO_SHA256_HEX]) {
    struct mo_sha256 sum;
    struct options o;
    choose_options(major, minor, &o);
    mo_sha256_init(&sum);
    mo_cuda_cache_add_number(&sum, MO_CUDA_CACHE_FORMAT);
    mo_cuda_cache_add_number(&sum, rtc->major);
    mo_cuda_cache_add_number(&sum, rtc->minor);
    for (int i = 0; i < OPTIONS; i++)
        mo_cuda_cache_add(&sum, o.list[i], strlen(o.list[i]));
    mo_cuda_cache_add(&sum, header, sizeof header);
    mo_cuda_cache_add(&sum, source, strlen(source));
    mo_sha256_end_hex(&sum, name);
}

int mo_cuda_rtc_compile(const struct mo_cuda_rtc *rtc, const char *source, int major, int minor, void **image,
                        size_t *bytes, moire_error *err) {
    static const char *const name = "moire_device.h";
    const char *const headers[] = {header};
    struct options o;
    choose_options(major, minor, &o);
    mo_rtc_program program = NULL;
    *image = NULL;
    if (rtc->create(&program, source, "moire.cu", 1, headers, &name))
        return mo_fail(err, MOIRE_ECOMPILER, "NVRTC takes no source");
    unsigned result = rtc->compile(program, OPTIONS, o.list);
    int rc = result ? complain(rtc, program, result, err) : take_image(rtc, program, image, bytes, err);
    rtc->destroy(&program);
    return rc;
}
