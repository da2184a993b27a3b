/* SPDX-License-Identifier: Apache-2.0
 * check_nvml.c - the plugin's declarations of NVML against its header, where `make cuda` finds that one. */
#include <stddef.h>
#include <nvml.h>
#include "runtime/gpu/cuda/nvml.h"

_Static_assert((int)MO_NVML_CLOCK_SM == (int)NVML_CLOCK_SM &&
                   (int)MO_NVML_CLOCK_MEMORY == (int)NVML_CLOCK_MEM,
               "clocks");
_Static_assert((int)MO_NVML_SENSOR_GPU == (int)NVML_TEMPERATURE_GPU && NVML_SUCCESS == 0, "sensor, success");
_Static_assert(sizeof(struct mo_nvml_utilisation) == sizeof(nvmlUtilization_t), "utilisation");
_Static_assert(offsetof(struct mo_nvml_utilisation, memory) == offsetof(nvmlUtilization_t, memory), "memory");
_Static_assert(__builtin_types_compatible_p(__typeof__(&nvmlErrorString), const char *(*)(unsigned)), "text");

#define mo_nvml_utilisation nvmlUtilization_st
#define CHECK_SIGNATURE(field, symbol, arguments)                                                            \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&(symbol)), unsigned(*) arguments), #symbol);
MO_NVML_FUNCTIONS(CHECK_SIGNATURE)
