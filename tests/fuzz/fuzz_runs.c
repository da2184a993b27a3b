/* SPDX-License-Identifier: Apache-2.0
 * fuzz_runs.c - libFuzzer target: any bytes as a recorded run, as samples of counters, as a proxy, and as a
 * profile of shares of a GPU, by their first line.  What is accepted must be usable; what is refused must say
 * where. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench/fit/fit.h"
#include "bench/data/trace.h"
#include "runtime/profile/share_table.h"
#include "runtime/proxy/proxy.h"

static void must(bool holds) {
    if (!holds) abort();
}

static void read_trace(const struct mo_env *env, const char *text, size_t n) {
    struct mo_trace t;
    moire_error err = {0};
    if (mo_trace_parse(env, "fuzz", text, n, &t, &err)) {
        must(strstr(err.message, "fuzz"));
        return;
    }
    must(t.n_queries > 0 && t.cores > 0 && t.adapted >= 0 && t.layers >= 0);
    must(!t.gpus.n_gpus || t.gpus.n_units == t.cores);
    for (int i = 0; i < t.n_tenants; i++)
        for (int k = 0; k < MO_PLAN_KINDS; k++)
            must(!t.tenants[i].share[k] || mo_share_latency(t.tenants[i].share[k], 1, MO_SHARE_WHOLE) > 0);
    for (int i = 1; i < t.n_counters; i++) {
        double p = mo_trace_mean_pressure(&t, t.counters[i - 1].time, t.counters[i].time);
        must(p >= 0 && p <= 1 + 1e-9);
    }
    mo_trace_free(&t);
}

static void read_samples(const struct mo_env *env, const char *text, size_t n) {
    static const bool every[MO_SAMPLE_CELLS] = {true, true, true, true, true};
    struct mo_samples s = {.env = env};
    struct mo_fit f;
    moire_error err = {0};
    if (mo_samples_parse(&s, "fuzz", text, n, &err))
        must(strstr(err.message, "fuzz"));
    else if (!mo_fit_samples(&s, every, &f, &err))
        must(f.k > 0 && isfinite(f.r2) && isfinite(f.r2_left_out) && isfinite(f.intercept) &&
             f.mean_error <= 1);
    mo_samples_free(&s);
}

static void read_proxy(const char *text, size_t n) {
    static const double observed[MO_OBSERVABLES] = {0.5, 1e3, 2};
    struct mo_proxy p;
    moire_error err = {0};
    if (mo_proxy_parse("fuzz", text, n, &p, &err)) {
        must(strstr(err.message, "fuzz"));
        return;
    }
    double v = mo_proxy_pressure(&p, observed);
    must(v >= 0 && v <= 1);
}

static void read_shares(const struct mo_env *env, const char *text, size_t n) {
    struct mo_share_table t;
    moire_error err = {0};
    if (mo_share_table_parse(env, "fuzz", text, n, &t, &err)) {
        must(strstr(err.message, "fuzz"));
        return;
    }
    for (int b = 1; b <= t.profile->max_batch; b++)
        for (int s = 1; s <= MO_SHARE_WHOLE; s += 37) {
            struct mo_share_use use = mo_share_use_at(t.profile, b, s);
            must(mo_share_latency(t.profile, b, s) >= mo_share_latency(t.profile, b - 1, s));
            must(mo_share_latency(t.profile, b, s) >= mo_share_latency(t.profile, b, s + 1));
            must(use.l2 >= 0 && use.l2 <= 1 && use.dram >= 0 && use.dram <= 1);
        }
    mo_share_table_free(&t);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    static const char samples[] = "# moire-pressure", proxy[] = "# moire-proxy", shares[] = "# moire-profile";
    struct mo_env env = mo_env_default();
    const char *text = (const char *)bytes;
    if (n >= sizeof samples - 1 && !memcmp(text, samples, sizeof samples - 1))
        read_samples(&env, text, n);
    else if (n >= sizeof proxy - 1 && !memcmp(text, proxy, sizeof proxy - 1))
        read_proxy(text, n);
    else if (n >= sizeof shares - 1 && !memcmp(text, shares, sizeof shares - 1))
        read_shares(&env, text, n);
    else
        read_trace(&env, text, n);
    return 0;
}
