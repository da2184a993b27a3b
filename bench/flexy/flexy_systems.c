/* SPDX-License-Identifier: Apache-2.0
 * flexy_systems.c - see flexy_systems.h. */
#include "bench/flexy/flexy_systems.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/policy/classes.h"

enum { PARTS = 4 };
static const double cut_ms = 10;
static const struct mo_classes_options with_parts = {.units = PARTS, .kept = 1, .share = 0.05};

/* By a policy of moire's; or by Flexy's with options of their own. */
static const struct {
    const char *name, *policy;
    struct mo_flexy_options own;
    const void *options; /* in place of the policy's; NULL = its own */
    int units;
    bool cut;
    double reset_ms; /* 0 = the machine's; REEF kills a kernel in some tens of microseconds */
} rows[] = {
    {"round-robin", "round-robin", {0}, NULL, 1, false, 0},
    {"priority", "priority", {0}, NULL, 1, false, 0},
    {"priority-1", "priority-1", {0}, NULL, 1, false, 0},
    {"priority-reset", "priority-reset", {0}, NULL, 1, false, 0},
    {"flexy-0", "flexy-0", {0}, NULL, 1, false, 0},
    {"flexy-1", "flexy-1", {0}, NULL, 1, false, 0},
    {"flexy-2", NULL, {.order = MO_FLEXY_ELASTIC, .keep = 2}, NULL, 1, false, 0},
    {"flexy-3", NULL, {.order = MO_FLEXY_ELASTIC, .keep = 3}, NULL, 1, false, 0},
    {"flexy-reset", "flexy-reset", {0}, NULL, 1, false, 0},
    {"flexy-1-packed", NULL, {.order = MO_FLEXY_ELASTIC, .keep = 1, .packs = true}, NULL, 1, false, 0},
    {"priority-cut", NULL, {.order = MO_FLEXY_PRIORITY, .cuts = true}, NULL, 1, true, 0},
    {"reef", NULL, {.order = MO_FLEXY_PRIORITY, .cuts = true, .resets = true}, NULL, 1, true, 0.04},
    {"moire", "moire", {0}, NULL, 1, true, 0},
    {"moire-classes", "moire-classes", {0}, NULL, 1, true, 0},
    {"moire-classes-parts", "moire-classes", {0}, &with_parts, PARTS, true, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

const char *const *mo_flexy_system_names(void) {
    static const char *names[ROWS + 1];
    for (int i = 0; i < ROWS; i++)
        names[i] = rows[i].name;
    return names;
}

static void open_row(int i, struct mo_flexy_chosen *out) {
    out->own = rows[i].own;
    out->system.policy = rows[i].policy ? *mo_policy_find(rows[i].policy) : mo_policy_flexy(&out->own);
    if (rows[i].options) out->system.policy.options = rows[i].options;
    out->system.units = rows[i].units;
    out->system.cut_ms = rows[i].cut ? cut_ms : 0;
    out->system.reset_ms = rows[i].reset_ms;
}

/* "flexy-2": Flexy or priority with that many kept devices. */
static bool open_kept(const char *name, struct mo_flexy_chosen *out) {
    static const char *const stems[] = {"flexy-", "priority-"};
    static const enum mo_flexy_order orders[] = {MO_FLEXY_ELASTIC, MO_FLEXY_PRIORITY};
    int which = 0;
    while (which < 2 && strncmp(name, stems[which], strlen(stems[which])) != 0)
        which++;
    if (which == 2) return false;
    const char *digits = name + strlen(stems[which]);
    const size_t n = strlen(digits);
    if (n < 1 || n > 3 || strspn(digits, "0123456789") != n) return false;
    const int keep = (int)strtol(digits, NULL, 10);
    const enum mo_flexy_order order = orders[which];
    out->own = (struct mo_flexy_options){.order = order, .keep = keep};
    out->system.policy = mo_policy_flexy(&out->own);
    out->system.units = 1;
    return true;
}

int mo_flexy_system_find(const char *name, int devices, struct mo_flexy_chosen *out, moire_error *err) {
    char known[400] = "";
    size_t at = 0;
    memset(out, 0, sizeof *out);
    out->system.name = name;
    for (int i = 0; i < ROWS; i++) {
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "", rows[i].name);
        if (strcmp(rows[i].name, name) != 0) continue;
        open_row(i, out);
        return MOIRE_OK;
    }
    if (!open_kept(name, out))
        return mo_fail(err, MOIRE_EINVAL, "no policy '%s' for this bench; there are: %s", name, known);
    if (out->own.keep >= devices)
        return mo_fail(err, MOIRE_EINVAL,
                       "policy '%s' keeps %d of %d devices and leaves batch tasks none: K may be 0 to %d",
                       name, out->own.keep, devices, devices - 1);
    return MOIRE_OK;
}
