/* SPDX-License-Identifier: Apache-2.0
 * boards.h - energy of GPU boards, by the counter that their driver keeps of each (of NVIDIA's: NVML's
 * nvmlDeviceGetTotalEnergyConsumption, millijoules since the driver was loaded). */
#ifndef MO_BOARDS_H
#define MO_BOARDS_H
#include "runtime/power/energy.h"

extern const struct mo_energy_meter mo_energy_boards;
#endif
