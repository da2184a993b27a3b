/* SPDX-License-Identifier: Apache-2.0
 * nvml.c - a libnvidia-ml.so.1 for tests: H200s that draw 350 W.  The first one counts no energy; the others
 * have taken 7 J more at every look. */
#include <string.h>

#define ENTRY __attribute__((visibility("default")))
enum { OK = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3 };

struct utilisation {
    unsigned gpu, memory;
};

ENTRY unsigned nvmlInit_v2(void);
ENTRY unsigned nvmlShutdown(void);
ENTRY const char *nvmlErrorString(unsigned result);
ENTRY unsigned nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out);
ENTRY unsigned nvmlDeviceGetPowerUsage(void *d, unsigned *milliwatt);
ENTRY unsigned nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *millijoule);
ENTRY unsigned nvmlDeviceGetUtilizationRates(void *d, struct utilisation *out);
ENTRY unsigned nvmlDeviceGetTemperature(void *d, unsigned sensor, unsigned *celsius);

/* By whether they count energy. */
static unsigned long long device[2];

unsigned nvmlInit_v2(void) {
    return OK;
}
unsigned nvmlShutdown(void) {
    return OK;
}
const char *nvmlErrorString(unsigned result) {
    return result == OK ? "Success" : result == NOT_SUPPORTED ? "Not Supported" : "Invalid Argument";
}
unsigned nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **out) {
    if (strncmp(bus, "0000:", 5) != 0) return INVALID_ARGUMENT;
    *out = &device[strncmp(bus + 5, "01:", 3) != 0];
    return OK;
}
unsigned nvmlDeviceGetPowerUsage(void *d, unsigned *milliwatt) {
    *milliwatt = 350000;
    return d ? OK : INVALID_ARGUMENT;
}
unsigned nvmlDeviceGetTotalEnergyConsumption(void *d, unsigned long long *millijoule) {
    *millijoule = 0;
    if (d == &device[0]) return NOT_SUPPORTED;
    *millijoule = device[1] += 7000;
    return d ? OK : INVALID_ARGUMENT;
}
unsigned nvmlDeviceGetUtilizationRates(void *d, struct utilisation *out) {
    *out = (struct utilisation){.gpu = 75, .memory = 40};
    return d ? OK : INVALID_ARGUMENT;
}
unsigned nvmlDeviceGetTemperature(void *d, unsigned sensor, unsigned *celsius) {
    *celsius = 61;
    return d && sensor == 0 ? OK : INVALID_ARGUMENT;
}
