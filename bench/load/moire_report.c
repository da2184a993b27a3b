/* SPDX-License-Identifier: Apache-2.0
 * moire_report.c - statistics and event rings of a runtime as JSON; see moire_report.h. */
#include <jansson.h>
#include <string.h>
#include "bench/choice/choice_models.h"
#include "bench/load/core_spans.h"
#include "bench/load/footprint.h"
#include "bench/load/moire_report.h"
#include "runtime/sched/events.h"
#include "runtime/engine/engine_gpu.h"
#include "runtime/proxy/sampler.h"

enum { MAX_BLOCKS = 20000, ROWS = 256 /* the limit 'tenants' */ };

json_t *mo_bench_scheduling_json(const struct mo_sched_stats *s) {
    const moire_histogram *d = &s->decision_ns, *b = &s->block_ns;
    double cpu = (double)s->worker_cpu_ns, kernels = (double)s->kernel_core_ns;
    json_t *json = json_pack(
        "{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:I, "
        "s:I}",
        "decisions", (json_int_t)d->count, "mean_us",
        d->count ? (double)d->sum_ns / (double)d->count * 1e-3 : 0.0, "query_us",
        s->accepted ? (double)d->sum_ns / (double)s->accepted * 1e-3 : 0.0, "p99_us",
        (double)moire_histogram_quantile(d, 0.99) * 1e-3, "max_us", (double)d->max_ns * 1e-3,
        "outside_kernels", cpu > kernels && cpu > 0 ? 1 - kernels / cpu : 0.0, "block_mean_us",
        b->count ? (double)b->sum_ns / (double)b->count * 1e-3 : 0.0, "block_p99_us",
        (double)moire_histogram_quantile(b, 0.99) * 1e-3, "blocks", (json_int_t)s->blocks, "switches",
        (json_int_t)s->switches, "refused_decisions", (json_int_t)s->refused, "accepted",
        (json_int_t)s->accepted, "in_time", (json_int_t)s->in_time, "shed", (json_int_t)s->shed, "conflicts",
        (json_int_t)s->conflicts, "conflict_mean_us",
        s->conflicts ? (double)s->conflict_ns / (double)s->conflicts * 1e-3 : 0.0, "kernel_core_s",
        kernels * 1e-9, "queries_per_block", s->blocks ? (double)s->members / (double)s->blocks : 0.0,
        "reorganised", (json_int_t)s->reorganised, "incomplete_plans", (json_int_t)s->incomplete);
    json_t *stalls = json_pack("{s:I, s:f, s:I, s:f}", "stalls", (json_int_t)s->stalls, "stall_ms",
                               (double)s->stall_ns * 1e-6, "stall_sheds", (json_int_t)s->stall_sheds,
                               "pace_max", s->pace_max > 1 ? s->pace_max : 1.0);
    json_object_update(json, stalls);
    json_decref(stalls);
    json_object_set_new(json, "resized", json_integer(s->resized));
    return json;
}

/* Moves the time of the oldest event that every ring still has, and of the newest, on to these events'. */
static void span(const struct mo_events *events, int64_t *from, int64_t *to) {
    for (int r = 0; r < events->n_rings; r++) {
        const struct mo_ring *ring = &events->ring[r];
        if (!ring->n) continue;
        uint64_t first = mo_ring_first(ring);
        if (first > 0 && mo_ring_at(ring, first)->time > *from) *from = mo_ring_at(ring, first)->time;
        if (mo_ring_at(ring, ring->n - 1)->time > *to) *to = mo_ring_at(ring, ring->n - 1)->time;
    }
}

/* [us, pressure] of every change, the first at `from` or later. */
static json_t *pressures(const struct mo_ring *ring, int64_t from) {
    json_t *list = json_array();
    double before = 0;
    bool any = false;
    for (uint64_t i = mo_ring_first(ring); i < ring->n; i++) {
        const struct mo_event_entry *e = mo_ring_at(ring, i);
        if (e->kind != MO_LOG_PRESSURE) continue;
        if (e->time >= from && !any) json_array_append_new(list, json_pack("[f,f]", 0.0, before));
        any = any || e->time >= from;
        before = (double)e->a / MO_EVENT_UNIT;
        if (any) json_array_append_new(list, json_pack("[f,f]", (double)(e->time - from) * 1e-3, before));
    }
    if (!any && before > 0) json_array_append_new(list, json_pack("[f,f]", 0.0, before));
    return list;
}

static json_t *track_names(const struct mo_gpus *g, int cores) {
    json_t *list = json_array();
    for (int c = 0; c < cores; c++)
        json_array_append_new(list, json_sprintf("core %d", c));
    for (int u = 0; g && u < g->n_units; u++)
        json_array_append_new(list, json_sprintf("GPU %d.%d", g->gpu_of[u], u - g->first[(int)g->gpu_of[u]]));
    return list;
}

static void span_of(struct mo_device *device, int64_t *from, int64_t *to) {
    mo_device_take(device);
    span(mo_device_events(device), from, to);
    mo_device_drop(device);
}

/* The blocks of one device from there on; its changes of pressure into *pressure, where that is asked for. */
static void add_spans(struct mo_device *device, int64_t from, int track, json_t *blocks, json_t **pressure) {
    mo_device_take(device);
    const struct mo_events *events = mo_device_events(device);
    const struct mo_ring *decided = &events->ring[mo_device_units(device)];
    mo_bench_core_spans(events, decided, from, track, MAX_BLOCKS, blocks);
    if (pressure) *pressure = pressures(decided, from);
    mo_device_drop(device);
}

/* Of the cores, and of the GPUs' units below them. */
static json_t *timeline(const struct mo_runtime_parts *parts) {
    struct mo_device *device = parts->device;
    if (!mo_device_events(parts->cores)) return NULL;
    int64_t from = INT64_MIN, to = INT64_MIN;
    json_t *blocks = json_array(), *pressure = NULL;
    span_of(parts->cores, &from, &to);
    if (device) span_of(device, &from, &to);
    int64_t last = to - (int64_t)2e9; /* the last two seconds are plenty */
    if (from < last) from = last;
    const int cores = mo_device_units(parts->cores), units = device ? mo_device_units(device) : 0;
    if (device) add_spans(device, from, cores, blocks, &pressure);
    add_spans(parts->cores, from, 0, blocks, device ? NULL : &pressure);
    return json_pack("{s:i, s:o, s:o, s:o}", "cores", cores + units, "lanes", track_names(parts->gpus, cores),
                     "blocks", blocks, "pressure", pressure);
}

/* How much of each tenant's work runs in specialised kernels, how many layers in references, and its
 * memory; of those that can run on cores. */
static json_t *kernels(moire_runtime *runtime) {
    json_t *list = json_array();
    moire_tenant_row rows[ROWS];
    int n = 0;
    moire_tenants(runtime, rows, ROWS, &n, NULL);
    for (int i = (n < ROWS ? n : ROWS) - 1; i >= 0; i--) {
        moire_tenant_stats stats = {.size = sizeof stats};
        if (moire_tenant_get_stats(rows[i].tenant, &stats, NULL) || !stats.layers) continue; /* GPUs only */
        json_array_append_new(list,
                              json_pack("{s:s, s:f, s:i, s:o*}", "name", rows[i].name, "specialised_share",
                                        stats.compiled_share, "reference_layers", stats.reference_layers,
                                        "memory", mo_bench_footprint(rows[i].tenant)));
    }
    return json_pack("{s:o}", "tenants", list);
}

/* Memory of started queries, and how often one gave way to another (runtime/serve/spill.h), since the runtime
 * was made. */
static json_t *activations(moire_runtime *runtime) {
    moire_runtime_stats s = {.size = sizeof s};
    if (moire_runtime_get_stats(runtime, &s, NULL)) return NULL;
    return json_pack("{s:f, s:I}", "most_mib", (double)s.arenas_most / (1 << 20), "spills",
                     (json_int_t)s.spills);
}

/* Changes of plan on GPUs: how long from the wish until the lets served. */
static void add_lets(struct mo_device *device, json_t *scheduling) {
    struct mo_engine_gpu_stats s;
    if (!device) return;
    mo_engine_gpu_stats(device, &s);
    json_object_set_new(scheduling, "lets_opened", json_integer(s.opened));
    json_object_set_new(scheduling, "ready_mean_ms",
                        json_real(s.changes ? (double)s.ready_ns / (double)s.changes * 1e-6 : 0.0));
    json_object_set_new(scheduling, "ready_max_ms", json_real((double)s.ready_max_ns * 1e-6));
    json_object_set_new(scheduling, "failed_on_gpus", json_integer(s.failed));
}

/* Decisions on cores since then. */
static void add_choices(moire_runtime *runtime, const struct mo_runtime_parts *parts, int64_t since,
                        json_t *report) {
    int64_t from = since, to = INT64_MIN;
    if (!mo_device_events(parts->cores) || parts->device)
        return; /* blocks on GPUs have no versions or reasons */
    span_of(parts->cores, &from, &to);
    json_t *choices = mo_bench_choices(runtime, from, to);
    if (choices) json_object_set_new(report, "choices", choices);
}

int mo_bench_moire_report(moire_runtime *runtime, bool with_timeline, int64_t since,
                          const struct mo_run_look look[2], const char *path, moire_error *err) {
    const struct mo_runtime_parts parts = mo_runtime_parts(runtime);
    struct mo_sched_stats stats;
    mo_runtime_stats(runtime, &stats);
    json_t *report = json_pack("{s:o, s:o, s:o*, s:o*}", "scheduling", mo_bench_scheduling_json(&stats),
                               "kernels", kernels(runtime), "activations", activations(runtime), "energy",
                               mo_run_energy_json(runtime, &look[0], &look[1], stats.ok));
    add_lets(parts.device, json_object_get(report, "scheduling"));
    mo_sampler_hold(parts.sampler); /* it has a ring of its own */
    json_t *line = with_timeline ? timeline(&parts) : NULL;
    if (with_timeline) add_choices(runtime, &parts, since, report);
    mo_sampler_unhold(parts.sampler);
    if (line) json_object_set_new(report, "timeline", line);
    int bad = !report || json_dump_file(report, path, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(report);
    return bad ? mo_fail(err, MOIRE_EIO, "%s: cannot be written", path) : MOIRE_OK;
}
