/* SPDX-License-Identifier: Apache-2.0
 * interference.c - the linear model; see interference.h. */
#include "runtime/planner/interference.h"

double mo_interference(const struct mo_interference *m, const struct mo_share_use *self,
                       const struct mo_share_use *others, int n) {
    double l2 = 0, dram = 0;
    if (n < 1) return 1;
    for (int i = 0; i < n; i++) {
        l2 += others[i].l2;
        dram += others[i].dram;
    }
    if (l2 > 1) l2 = 1;
    if (dram > 1) dram = 1;
    double slowdown = m->l2_self * self->l2 + m->l2_other * l2 + m->dram_self * self->dram +
                      m->dram_other * dram + m->constant;
    return slowdown > 1 ? slowdown : 1;
}
