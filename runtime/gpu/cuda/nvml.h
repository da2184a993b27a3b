/* SPDX-License-Identifier: Apache-2.0
 * nvml.h - what is used of NVML, declared without its header; `make cuda` compares where it finds that one.
 */
#ifndef MO_CUDA_NVML_H
#define MO_CUDA_NVML_H

typedef struct nvmlDevice_st *mo_nvml_device;

/* nvmlUtilization_t */
struct mo_nvml_utilisation {
    unsigned gpu, memory; /* per cent of the last sampling period */
};

/* X(field, symbol, arguments) */
#define MO_NVML_FUNCTIONS(X)                                                                                 \
    X(init, nvmlInit_v2, (void))                                                                             \
    X(shutdown, nvmlShutdown, (void))                                                                        \
    X(by_bus, nvmlDeviceGetHandleByPciBusId_v2, (const char *bus, mo_nvml_device *out))                      \
    X(power, nvmlDeviceGetPowerUsage, (mo_nvml_device d, unsigned *milliwatt))                               \
    X(energy, nvmlDeviceGetTotalEnergyConsumption, (mo_nvml_device d, unsigned long long *millijoule))       \
    X(rates, nvmlDeviceGetUtilizationRates, (mo_nvml_device d, struct mo_nvml_utilisation * out))            \
    X(temperature, nvmlDeviceGetTemperature, (mo_nvml_device d, unsigned sensor, unsigned *celsius))

enum { MO_NVML_SENSOR_GPU = 0 };
#endif
