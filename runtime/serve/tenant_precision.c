/* SPDX-License-Identifier: Apache-2.0
 * tenant_precision.c - which precision a tenant with a tolerance is loaded with: by measurement
 * (codegen/settle_precision.h), or what was measured last for its file, when it has no time to measure. */
#include "codegen/settle_precision.h"
#include "runtime/serve/common.h"

static struct mo_tenant_choice recall(struct mo_common *c) {
    const struct mo_sys *sys = c->runtime->env.sys;
    mo_lock_take(sys, &c->building);
    const struct mo_tenant_choice choice = c->choice;
    mo_lock_drop(sys, &c->building);
    return choice;
}

static void remember(struct mo_common *c, const struct mo_tenant_choice *choice) {
    const struct mo_sys *sys = c->runtime->env.sys;
    mo_lock_take(sys, &c->building);
    c->choice = *choice;
    mo_lock_drop(sys, &c->building);
}

int mo_tenant_settle(moire_tenant *t, const char *path, double tolerance,
                     const struct mo_plan_options *planning, struct mo_frontend_options *front) {
    const struct mo_env *env = &t->runtime->env;
    if (front->precision != MOIRE_PRECISION_AUTO || !(tolerance > 0)) return MOIRE_OK;
    if (t->at_once) {
        const struct mo_tenant_choice last = recall(t->common);
        if (last.tolerance != tolerance || last.exact != front->exact) return MOIRE_ESTORE;
        front->precision = last.precision;
        return MOIRE_OK;
    }
    const struct mo_precision_ask ask = {
        .env = env, .path = path, .front = front, .planning = planning, .tolerance = tolerance};
    const struct mo_precision_settled settled = mo_precision_settle(&ask);
    if (settled.said[0]) mo_log(env, MOIRE_LOG_INFO, "'%.150s': auto: %s", t->name, settled.said);
    front->precision = settled.precision;
    const struct mo_tenant_choice choice = {tolerance, front->exact, settled.precision};
    if (t->common) remember(t->common, &choice);
    return MOIRE_OK;
}
