/* SPDX-License-Identifier: Apache-2.0
 * verb_devices.c - `moire devices`: what there is to run on, and why there is no GPU if there is none. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "runtime/device/topology.h"
#include "runtime/gpu/loader.h"
#include "tools/moire/verb.h"
#include "tools/moire/verbs/devices_power.h"

static const char about[] = "Lists the cores and the GPUs that moire can use, with the units that lets are "
                            "made of.  Without a GPU one\n"
                            "line says what is missing: the plugin, the driver, or the GPU.  --power adds "
                            "what each of them draws, measured\n"
                            "where the machine has counters, or else modelled, and why.\n";

static const char notes[] = "Exit code 3: the device that was asked for is not there; 5: lets share SMs.\n"
                            "\n"
                            "Examples:\n"
                            "  moire devices\n"
                            "  moire devices --power --seconds 2\n"
                            "  moire devices --device cuda:build/libmoire-cuda.so --probe\n";

static const double gib = 1073741824;

struct probe {
    bool asked, shared;
    int seen[MO_GPU_UNITS]; /* SMs of each unit */
};

/* Every unit a let of its own, all open at once. */
static int probe_units(const struct mo_gpu_device *d, int gpu, int units, struct probe *p, moire_error *err) {
    struct mo_gpu_let *let[MO_GPU_UNITS] = {NULL};
    uint64_t all[MO_GPU_SM_WORDS] = {0}, sms[MO_GPU_SM_WORDS];
    int code = MOIRE_OK;
    for (int u = 0; u < units && !code; u++)
        code = d->ops->let_open(d->system, gpu, u, 1, 1, &let[u], err);
    for (int u = 0; u < units && !code; u++) {
        code = d->ops->let_probe(let[u], sms, err);
        for (int w = 0; w < MO_GPU_SM_WORDS && !code; w++) {
            p->shared |= (all[w] & sms[w]) != 0;
            all[w] |= sms[w];
            p->seen[u] += __builtin_popcountll(sms[w]);
        }
    }
    for (int u = 0; u < units; u++)
        d->ops->let_close(let[u]);
    return code;
}

static json_t *describe(const struct mo_gpu_device *d, int gpu, struct probe *p, moire_error *err) {
    struct mo_gpu_info info;
    struct mo_gpu_counters c = {.power_w = -1, .celsius = -1};
    moire_error ignored;
    int code = d->ops->describe(d->system, gpu, &info, err);
    if (!code && p->asked) code = probe_units(d, gpu, info.units, p, err);
    if (code) return NULL;
    (void)d->ops->counters(d->system, gpu, &c, &ignored);
    json_t *row =
        json_pack("{s:s, s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:s, s:s, s:i, s:f}", "device",
                  d->ops->name, "gpu", gpu, "name", info.name, "sms", info.sms, "units", info.units,
                  "unit_sms", info.unit_sms, "least_sms", info.least_sms, "align_sms", info.align_sms,
                  "memory_gib", (double)info.memory_total / gib, "memory_free_gib",
                  (double)info.memory_free / gib, "l2_mib", (double)info.l2_bytes / 1048576, "bus", info.bus,
                  "counters_missing", c.missing, "copy_engines", info.copy_engines, "power_w", c.power_w);
    json_object_set_new(row, "driver", json_sprintf("%d.%d", info.driver / 1000, info.driver % 1000 / 10));
    json_object_set_new(row, "compute", json_sprintf("%d.%d", info.major, info.minor));
    json_t *seen = json_array();
    for (int u = 0; p->asked && u < info.units; u++)
        json_array_append_new(seen, json_integer(p->seen[u]));
    if (p->asked) {
        json_object_set(row, "sms_seen", seen);
        json_object_set_new(row, "lets_share_sms", json_boolean(p->shared));
    }
    json_decref(seen);
    return row;
}

static void print(const json_t *row) {
    printf("%s %d: %s, %.0f SMs in %.0f units of %.0f, %.1f of %.1f GiB free, compute %s, driver %s, "
           "%.0f copy engines\n",
           mo_json_text(row, "device"), (int)mo_json_number(row, "gpu"), mo_json_text(row, "name"),
           mo_json_number(row, "sms"), mo_json_number(row, "units"), mo_json_number(row, "unit_sms"),
           mo_json_number(row, "memory_free_gib"), mo_json_number(row, "memory_gib"),
           mo_json_text(row, "compute"), mo_json_text(row, "driver"), mo_json_number(row, "copy_engines"));
    const char *missing = mo_json_text(row, "counters_missing");
    if (*missing) printf("         counters: %s\n", missing);
    if (!json_object_get(row, "sms_seen")) return;
    printf("         SMs seen on the lets of one unit:");
    size_t i;
    json_t *n;
    json_array_foreach(json_object_get(row, "sms_seen"), i, n) printf(" %d", (int)json_integer_value(n));
    printf("; %s\n", json_is_true(json_object_get(row, "lets_share_sms")) ? "lets SHARE SMs" : "none shared");
}

static int list_gpus(const struct mo_env *env, const struct mo_options *o, struct probe *p, json_t *list,
                     moire_error *err) {
    struct mo_gpu_device d;
    int code =
        mo_gpu_device_open(env, o->device ? o->device : "cuda",
                           &(struct mo_gpu_config){.process = o->process, .path = o->libraries}, &d, err);
    if (code) return code;
    for (int g = 0; g < d.ops->count(d.system) && !code; g++) {
        memset(p->seen, 0, sizeof p->seen);
        json_t *row = describe(&d, g, p, err);
        if (!row || json_array_append_new(list, row)) code = err->code ? err->code : MOIRE_ENOMEM;
    }
    if (!code && o->power) code = mo_devices_add_power(env, &d, o->seconds, list, err);
    mo_gpu_device_close(&d);
    return code;
}

static int list_cores(const struct mo_env *env, json_t *list, moire_error *err) {
    struct mo_topology *topology;
    int code = mo_topology_create(env, NULL, 0, "", &topology, err);
    if (code) return code;
    json_array_append_new(list, json_pack("{s:s, s:i}", "device", "cpu", "cores", topology->n_cores));
    mo_topology_destroy(topology);
    return MOIRE_OK;
}

static int run(const struct mo_env *env, const struct mo_options *o) {
    struct probe p = {.asked = o->probe};
    moire_error err = {0};
    json_t *list = json_array(), *row;
    size_t i;
    int code = list_cores(env, list, &err);
    if (code) {
        json_decref(list);
        return mo_verb_fail(o, &err);
    }
    code = list_gpus(env, o, &p, list, &err);
    if (code && o->power) (void)mo_devices_add_power(env, NULL, o->seconds, list, NULL);
    if (code) json_array_append_new(list, json_pack("{s:s, s:s}", "device", "cuda", "missing", err.message));
    /* who asks for no device takes what there is */
    const bool failed = (code && o->device) || p.shared;
    if (!code && p.shared) mo_fail(&err, MOIRE_EFAILED, "lets share multiprocessors");
    if (o->json && !failed) (void)mo_print_json(list, NULL);
    json_array_foreach(list, i, row) {
        if (o->json) break;
        if (json_object_get(row, "cores"))
            printf("cpu: %d cores\n", (int)mo_json_number(row, "cores"));
        else if (json_object_get(row, "missing"))
            printf("cuda: none: %s\n", mo_json_text(row, "missing"));
        else
            print(row);
        mo_devices_print_power(row);
    }
    if (failed) code = mo_verb_fail_with(o, &err, list);
    json_decref(list);
    return failed ? code : MO_EXIT_OK;
}

const struct mo_verb mo_verb_devices = {
    .name = "devices",
    .group = MO_GROUP_MACHINE,
    .summary = "list cores and GPUs that can be used, or why there is no GPU",
    .about = about,
    .notes = notes,
    .commands = {{.command = MO_DO_DEVICES}},
    .run = run,
};
