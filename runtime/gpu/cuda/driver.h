/* SPDX-License-Identifier: Apache-2.0
 * driver.h - the CUDA driver's functions that the plugin calls, declared without the toolkit's headers.
 *
 * The tags of opaque structs are those of cuda.h, so that tools/cuda/check_headers.c, which sees both, can
 * compare every signature, value and layout where the toolkit is installed (`make cuda`).  Versions are
 * spelled out in the names: a suffix fixes the ABI.  Results are the driver's CUresult; fail.c turns them
 * into codes. */
#ifndef MO_CUDA_DRIVER_H
#define MO_CUDA_DRIVER_H
#include "runtime/gpu/cuda/symbols.h"

typedef int mo_cu_device;
typedef unsigned long long mo_cu_ptr; /* device memory */
typedef struct CUctx_st *mo_cu_context;
typedef struct CUgreenCtx_st *mo_cu_green;
typedef struct CUstream_st *mo_cu_stream;
typedef struct CUevent_st *mo_cu_event;
typedef struct CUgraph_st *mo_cu_graph;
typedef struct CUgraphExec_st *mo_cu_graph_exec;
typedef struct CUlib_st *mo_cu_library;
typedef struct CUkern_st *mo_cu_kernel;
typedef struct CUfunc_st *mo_cu_function; /* a mo_cu_kernel cast to this launches in the current context */
typedef struct CUdevResourceDesc_st *mo_cu_resource_desc;

/* Values from cuda.h; check_headers.c asserts each: X(ours, theirs, value). */
#define MO_CU_VALUES(X)                                                                                      \
    X(MO_CU_ATTR_CLOCK_KHZ, CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 13)                                              \
    X(MO_CU_ATTR_SMS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16)                                          \
    X(MO_CU_ATTR_L2_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 38)                                            \
    X(MO_CU_ATTR_COPY_ENGINES, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 40)                                   \
    X(MO_CU_ATTR_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75)                                    \
    X(MO_CU_ATTR_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76)                                    \
    X(MO_CU_RESOURCE_SM, CU_DEV_RESOURCE_TYPE_SM, 1)                                                         \
    X(MO_CU_GREEN_DEFAULT_STREAM, CU_GREEN_CTX_DEFAULT_STREAM, 1)                                            \
    X(MO_CU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING, 1)                                                  \
    X(MO_CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED, 2)                                              \
    X(MO_CU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE, 1)                                                      \
    X(MO_CU_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE, 1)                                               \
    X(MO_CU_NOT_READY, CUDA_ERROR_NOT_READY, 600)                                                            \
    X(MO_CU_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT, 702)
enum {
#define MO_CU_VALUE(ours, theirs, value) ours = value,
    MO_CU_VALUES(MO_CU_VALUE)
#undef MO_CU_VALUE
};

/* CUdevResource, as the driver writes it: the SM fields are for reading only. */
struct mo_cu_resource {
    unsigned type;
    unsigned char inside[92];
    union {
        struct {
            unsigned count, least, align;
        } sm;
        unsigned char oversize[48];
    };
};

/* Passed by pointer: struct mo_cu_resource has its layout. */
struct CUdevResource_st;

/* X(field, symbol, arguments) */
#define MO_CU_FUNCTIONS(X)                                                                                   \
    X(init, cuInit, (unsigned flags))                                                                        \
    X(driver_version, cuDriverGetVersion, (int *level))                                                      \
    X(error_name, cuGetErrorName, (unsigned result, const char **out))                                       \
    X(error_text, cuGetErrorString, (unsigned result, const char **out))                                     \
    X(device_count, cuDeviceGetCount, (int *n))                                                              \
    X(device_get, cuDeviceGet, (mo_cu_device * out, int index))                                              \
    X(device_name, cuDeviceGetName, (char *out, int n, mo_cu_device d))                                      \
    X(device_bus, cuDeviceGetPCIBusId, (char *out, int n, mo_cu_device d))                                   \
    X(device_attribute, cuDeviceGetAttribute, (int *out, unsigned attribute, mo_cu_device d))                \
    X(device_resource, cuDeviceGetDevResource,                                                               \
      (mo_cu_device d, struct CUdevResource_st * out, unsigned type))                                        \
    X(primary_retain, cuDevicePrimaryCtxRetain, (mo_cu_context * out, mo_cu_device d))                       \
    X(primary_release, cuDevicePrimaryCtxRelease_v2, (mo_cu_device d))                                       \
    X(context_push, cuCtxPushCurrent_v2, (mo_cu_context c))                                                  \
    X(context_pop, cuCtxPopCurrent_v2, (mo_cu_context * out))                                                \
    X(priorities, cuCtxGetStreamPriorityRange, (int *least, int *greatest))                                  \
    X(sm_split, cuDevSmResourceSplitByCount,                                                                 \
      (struct CUdevResource_st * groups, unsigned *n, const struct CUdevResource_st *input,                  \
       struct CUdevResource_st *rest, unsigned flags, unsigned least))                                       \
    X(resource_desc, cuDevResourceGenerateDesc,                                                              \
      (mo_cu_resource_desc * out, struct CUdevResource_st * resources, unsigned n))                          \
    X(green_create, cuGreenCtxCreate,                                                                        \
      (mo_cu_green * out, mo_cu_resource_desc desc, mo_cu_device d, unsigned flags))                         \
    X(green_destroy, cuGreenCtxDestroy, (mo_cu_green g))                                                     \
    X(green_context, cuCtxFromGreenCtx, (mo_cu_context * out, mo_cu_green g))                                \
    X(green_stream, cuGreenCtxStreamCreate,                                                                  \
      (mo_cu_stream * out, mo_cu_green g, unsigned flags, int priority))                                     \
    X(stream_create, cuStreamCreateWithPriority, (mo_cu_stream * out, unsigned flags, int priority))         \
    X(stream_destroy, cuStreamDestroy_v2, (mo_cu_stream s))                                                  \
    X(stream_query, cuStreamQuery, (mo_cu_stream s))                                                         \
    X(capture_begin, cuStreamBeginCapture_v2, (mo_cu_stream s, unsigned mode))                               \
    X(capture_end, cuStreamEndCapture, (mo_cu_stream s, mo_cu_graph * out))                                  \
    X(event_create, cuEventCreate, (mo_cu_event * out, unsigned flags))                                      \
    X(event_destroy, cuEventDestroy_v2, (mo_cu_event e))                                                     \
    X(event_record, cuEventRecord, (mo_cu_event e, mo_cu_stream s))                                          \
    X(event_query, cuEventQuery, (mo_cu_event e))                                                            \
    X(event_elapsed, cuEventElapsedTime, (float *ms, mo_cu_event begin, mo_cu_event end))                    \
    X(graph_instantiate, cuGraphInstantiateWithFlags,                                                        \
      (mo_cu_graph_exec * out, mo_cu_graph graph, unsigned long long flags))                                 \
    X(graph_upload, cuGraphUpload, (mo_cu_graph_exec graph, mo_cu_stream s))                                 \
    X(graph_launch, cuGraphLaunch, (mo_cu_graph_exec graph, mo_cu_stream s))                                 \
    X(graph_destroy, cuGraphDestroy, (mo_cu_graph graph))                                                    \
    X(graph_exec_destroy, cuGraphExecDestroy, (mo_cu_graph_exec graph))                                      \
    X(memory_info, cuMemGetInfo_v2, (size_t * free, size_t * total))                                         \
    X(memory_alloc, cuMemAlloc_v2, (mo_cu_ptr * out, size_t bytes))                                          \
    X(memory_free, cuMemFree_v2, (mo_cu_ptr at))                                                             \
    X(host_alloc, cuMemHostAlloc, (void **out, size_t bytes, unsigned flags))                                \
    X(host_free, cuMemFreeHost, (void *at))                                                                  \
    X(host_register, cuMemHostRegister_v2, (void *at, size_t bytes, unsigned flags))                         \
    X(host_unregister, cuMemHostUnregister, (void *at))                                                      \
    X(copy_in, cuMemcpyHtoDAsync_v2, (mo_cu_ptr to, const void *from, size_t bytes, mo_cu_stream s))         \
    X(copy_out, cuMemcpyDtoHAsync_v2, (void *to, mo_cu_ptr from, size_t bytes, mo_cu_stream s))              \
    X(copy, cuMemcpyDtoDAsync_v2, (mo_cu_ptr to, mo_cu_ptr from, size_t bytes, mo_cu_stream s))              \
    X(host_function, cuLaunchHostFunc, (mo_cu_stream s, void (*fn)(void *ctx), void *ctx))                   \
    X(fill, cuMemsetD8Async, (mo_cu_ptr to, unsigned char value, size_t bytes, mo_cu_stream s))              \
    X(library_load, cuLibraryLoadData,                                                                       \
      (mo_cu_library * out, const void *code, unsigned *jit, void **jit_values, unsigned n_jit,              \
       unsigned *options, void **values, unsigned n))                                                        \
    X(library_unload, cuLibraryUnload, (mo_cu_library l))                                                    \
    X(library_kernel, cuLibraryGetKernel, (mo_cu_kernel * out, mo_cu_library l, const char *name))           \
    X(launch, cuLaunchKernel,                                                                                \
      (mo_cu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,                \
       unsigned block_y, unsigned block_z, unsigned shared, mo_cu_stream s, void **arguments, void **extra))

/* CUresult is an enum without negative values, which is `unsigned` in the C ABI. */
struct mo_cuda_driver {
#define MO_CU_FIELD(field, symbol, arguments) unsigned(*field) arguments;
    MO_CU_FUNCTIONS(MO_CU_FIELD)
#undef MO_CU_FIELD
};

/* The functions, from libcuda.so.1 in one of the folders of `path` (NULL = the loader's search). */
int mo_cuda_driver_open(struct mo_cuda_object *object, const struct mo_env *env, const char *path,
                        struct mo_cuda_driver *cu, moire_error *err);

/* fail.c.  The code of a CUresult: MOIRE_OK, _ENOMEM, _EUNSUPPORTED, _EINVAL, _EFAILED, or _EDEVICE for
 * errors after which no call of this process on the GPU succeeds (illegal address, ECC, reset and the like).
 */
int mo_cuda_code(unsigned result);

/* Fills err with "WHAT: CUDA_ERROR_NAME (n): text" and what to do where there is something; returns the code.
 */
int mo_cuda_error(const struct mo_cuda_driver *cu, unsigned result, moire_error *err, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
#endif
