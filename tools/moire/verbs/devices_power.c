/* SPDX-License-Identifier: Apache-2.0
 * devices_power.c - see devices_power.h.
 *
 * Two looks at the counters, `seconds` apart.  Where there is none, the model's numbers stand in, and are
 * said to be that. */
#include "tools/moire/verbs/devices_power.h"

#include <stdio.h>
#include <string.h>
#include "bench/data/json_read.h"
#include "runtime/gpu/gpu_energy.h"
#include "runtime/power/cores_power.h"
#include "runtime/power/cpufreq.h"
#include "runtime/power/joules.h"

/* --- measured ------------------------------------------------------------------------------------------- */
struct looks {
    int n;
    double seconds;
    moire_energy_row before[MO_JOULES_ROWS], after[MO_JOULES_ROWS];
};

static void look_twice(const struct mo_env *env, struct mo_joules *j, double seconds, struct looks *out) {
    const int64_t from = mo_now(env), until = from + (int64_t)(seconds * 1e9);
    out->n = mo_joules_read(j, out->before);
    while (out->n > 0 && mo_now(env) < until)
        env->sys->sleep_until(env->sys->self, until);
    if (mo_joules_read(j, out->after) < out->n) out->n = 0;
    out->seconds = (double)(mo_now(env) - from) * 1e-9;
}

/* Of one device. */
static json_t *domains(const struct looks *l, const char *device) {
    json_t *list = json_array();
    for (int i = 0; i < l->n; i++) {
        const moire_energy_row *r = &l->after[i];
        if (strcmp(r->device, device) != 0 || r->gone) continue;
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:f, s:b}", "domain", r->domain, "source", r->source, "watts",
                            (r->joules - l->before[i].joules) / l->seconds, "part", r->part));
    }
    return list;
}

/* --- rows ----------------------------------------------------------------------------------------------- */
static void add_model(const json_t *row, json_t *power) {
    const struct mo_power_kind kind = mo_power_of_cores((int)mo_json_number(row, "cores"));
    json_object_set_new(power, "basis", json_string(mo_power_basis_name(kind.basis)));
    json_object_set_new(power, "by", json_string(kind.source));
    json_object_set_new(power, "idle_w", json_real(mo_power_watts(&kind, 1, 0, 0)));
    json_object_set_new(power, "active_w", json_real(mo_power_watts(&kind, 1, 1, 0)));
}

static void add_clock(const struct mo_env *env, json_t *row) {
    struct mo_cpufreq f;
    moire_error why;
    json_t *clock =
        mo_cpufreq_look(env, "", 0, &f, &why)
            ? json_pack("{s:s}", "missing", why.message)
            : json_pack("{s:s, s:s, s:f, s:f, s:f, s:b}", "governor", f.governor, "driver", f.driver,
                        "least_mhz", (double)f.least_khz * 1e-3, "most_mhz", (double)f.most_khz * 1e-3,
                        "ceiling_mhz", (double)f.ceiling_khz * 1e-3, "settable", f.settable);
    json_object_set_new(row, "clock", clock);
}

/* A GPU that counts no energy, and tells what it draws at the moment. */
static void add_moment(const json_t *row, json_t *power) {
    const double watts = mo_json_number(row, "power_w");
    if (!json_object_get(row, "power_w") || watts < 0) return;
    json_object_set_new(power, "line", json_string("measured by nvml, at one moment: it counts no energy"));
    json_object_set_new(power, "source", json_string("measured"));
    json_array_append_new(
        json_object_get(power, "domains"),
        json_pack("{s:s, s:s, s:f, s:b}", "domain", "board", "source", "nvml", "watts", watts, "part", 0));
}

/* Of the cores, or of a GPU. */
static void add_row(const struct mo_env *env, const struct mo_joules *j, const struct looks *l, json_t *row) {
    const bool cores = json_object_get(row, "cores") != NULL;
    char device[64] = "cpu";
    if (!cores)
        snprintf(device, sizeof device, "%s:%d", mo_json_text(row, "device"),
                 (int)mo_json_number(row, "gpu"));
    json_t *list = domains(l, device);
    const bool measured = json_array_size(list) > 0;
    json_t *power =
        json_pack("{s:s, s:s, s:o}", "source",
                  measured ? "measured"
                  : cores  ? "model"
                           : "none",
                  "line", mo_joules_line(j, cores ? MO_JOULES_CORES : MO_JOULES_BOARDS), "domains", list);
    if (!measured && cores) add_model(row, power);
    if (!measured && !cores) add_moment(row, power);
    json_object_set_new(row, "power", power);
    if (cores) add_clock(env, row);
}

int mo_devices_add_power(const struct mo_env *env, const struct mo_gpu_device *gpus, double seconds,
                         json_t *list, moire_error *err) {
    struct mo_energy_boards boards;
    struct mo_energy_config config = {.env = env, .root = ""};
    struct mo_joules joules;
    struct looks looks;
    size_t i;
    json_t *row;
    if (gpus) {
        boards = mo_gpu_energy_boards(gpus);
        config.boards = &boards;
    }
    const int code = mo_joules_open(&config, &joules, err);
    if (code) return code;
    look_twice(env, &joules, seconds, &looks);
    json_array_foreach(list, i, row) add_row(env, &joules, &looks, row);
    mo_joules_close(&joules);
    return MOIRE_OK;
}

/* --- text ----------------------------------------------------------------------------------------------- */
static void print_clock(const json_t *clock) {
    const char *missing = mo_json_text(clock, "missing");
    if (*missing) {
        printf("     clock: the kernel shows none, and none can be set: %s\n", missing);
        return;
    }
    printf("     clock: %.0f to %.0f MHz, ceiling %.0f MHz, governor %s of %s; %s\n",
           mo_json_number(clock, "least_mhz"), mo_json_number(clock, "most_mhz"),
           mo_json_number(clock, "ceiling_mhz"), mo_json_text(clock, "governor"),
           mo_json_text(clock, "driver"),
           json_is_true(json_object_get(clock, "settable"))
               ? "the ceiling may be set"
               : "the ceiling may not be set by this user: run as root");
}

void mo_devices_print_power(const json_t *row) {
    const json_t *power = json_object_get(row, "power"), *clock = json_object_get(row, "clock");
    size_t i;
    json_t *d;
    if (!power) return;
    printf("     power: %s\n", mo_json_text(power, "line"));
    json_array_foreach(json_object_get(power, "domains"), i, d)
        printf("            %-20s %9.2f W%s\n", mo_json_text(d, "domain"), mo_json_number(d, "watts"),
               json_is_true(json_object_get(d, "part")) ? " (in another row)" : "");
    if (json_object_get(power, "idle_w"))
        printf("            modelled: %.2f W idle, %.2f W with all cores busy (%s: %s)\n",
               mo_json_number(power, "idle_w"), mo_json_number(power, "active_w"),
               mo_json_text(power, "basis"), mo_json_text(power, "by"));
    if (clock) print_clock(clock);
}
