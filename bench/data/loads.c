/* SPDX-License-Identifier: Apache-2.0
 * loads.c - see loads.h. */
#include "bench/data/loads.h"

enum { LEVELS = 4, STEP = 200, MS = 1000000 };

const struct mo_loads_model mo_loads_models[MO_LOADS_MODELS] = {
    {"lenet", 5 * MS},           {"googlenet", 44 * MS}, {"resnet50", 95 * MS},
    {"ssd-mobilenet", 136 * MS}, {"vgg16", 130 * MS},
};

void mo_loads_rates(int index, double rate[MO_LOADS_MODELS]) {
    int digits = index + 1;
    for (int i = MO_LOADS_MODELS - 1; i >= 0; i--) {
        rate[i] = STEP * (digits % LEVELS);
        digits /= LEVELS;
    }
}
