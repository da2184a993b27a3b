/* SPDX-License-Identifier: Apache-2.0
 * check_headers.c - compiled by `make cuda` where the toolkit is, and linked nowhere: do the plugin's own
 * declarations agree with cuda.h?  Values and layouts by assertions, signatures by assigning each function of
 * the header to the field that calls it (an enumeration without negative values is compatible with
 * `unsigned`). */
#include <cuda.h>

#include "runtime/gpu/cuda/driver.h"

#define SAME_VALUE(ours, theirs, value)                                                                      \
    _Static_assert((int)(theirs) == (int)(ours), #theirs " is not what driver.h says");
MO_CU_VALUES(SAME_VALUE)
#undef SAME_VALUE

_Static_assert(sizeof(CUdevice) == sizeof(mo_cu_device), "CUdevice");
_Static_assert(sizeof(CUdeviceptr) == sizeof(mo_cu_ptr), "CUdeviceptr");
_Static_assert(sizeof(CUresult) == sizeof(unsigned), "CUresult");

_Static_assert(sizeof(CUdevResource) == sizeof(struct mo_cu_resource), "CUdevResource");
_Static_assert(offsetof(CUdevResource, sm) == offsetof(struct mo_cu_resource, sm), "CUdevResource.sm");
_Static_assert(offsetof(CUdevResource, sm.smCount) == offsetof(struct mo_cu_resource, sm.count), "smCount");
_Static_assert(offsetof(CUdevResource, sm.minSmPartitionSize) == offsetof(struct mo_cu_resource, sm.least),
               "minSmPartitionSize");
_Static_assert(offsetof(CUdevResource, sm.smCoscheduledAlignment) ==
                   offsetof(struct mo_cu_resource, sm.align),
               "smCoscheduledAlignment");

/* The header's function in the plugin's field: another signature is a warning, and warnings are errors. */
void mo_cuda_check_signatures(struct mo_cuda_driver *cu);
void mo_cuda_check_signatures(struct mo_cuda_driver *cu) {
#define SAME_SIGNATURE(field, symbol, arguments) cu->field = symbol;
    MO_CU_FUNCTIONS(SAME_SIGNATURE)
#undef SAME_SIGNATURE
}
