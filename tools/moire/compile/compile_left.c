/* SPDX-License-Identifier: Apache-2.0
 * compile_left.c - layers that were left out; see compile_left.h. */
#include "tools/moire/compile/compile_left.h"

enum { NAMES = 6 };

static const struct {
    const char *key, *text, *then;
} reasons[MO_LEFT_REASONS] = {
    [MO_LEFT_BUDGET] = {"budget", "the budget ended before them", "; run the command again to go on"},
    [MO_LEFT_FAILED] = {"failed", "no candidate compiles and computes right",
                        "; built-in kernels serve, --verbose says why"},
    [MO_LEFT_BUILT_IN] = {"built-in", "no candidate is faster than the built-in kernel", ""},
    [MO_LEFT_NONE] = {"none", "no family of kernels has one of their shape", "; built-in kernels serve"},
    [MO_LEFT_VERSIONS] = {"versions", "measured, but without versions for pressure", ""},
};

enum mo_left_reason mo_left_reason(const struct mo_layer_result *r) {
    switch (r->state) {
    case MO_LAYER_PENDING:
        return MO_LEFT_BUDGET;
    case MO_LAYER_FAILED:
        return MO_LEFT_FAILED;
    case MO_LAYER_GENERIC:
        return r->tried ? MO_LEFT_BUILT_IN : MO_LEFT_NONE;
    case MO_LAYER_REUSED:
    case MO_LAYER_COMPILED:
        break;
    }
    return r->refused[0] ? MO_LEFT_VERSIONS : MO_LEFT_REASONS;
}

static double work_of(const struct mo_layer_result *r) {
    return (double)r->flops * r->uses;
}

/* The layers of a reason and their share of all work; MO_LEFT_REASONS: those that have all. */
static int count(const struct mo_search *search, enum mo_left_reason reason, double *work) {
    double all = 0, sum = 0;
    int n = 0;
    for (int i = 0; i < mo_search_count(search); i++) {
        const struct mo_layer_result *r = mo_search_result(search, i);
        bool is = mo_left_reason(r) == reason;
        all += work_of(r);
        sum += is ? work_of(r) : 0;
        n += is;
    }
    *work = all > 0 ? sum / all : 0;
    return n;
}

static void print_names(FILE *to, const struct mo_search *search, enum mo_left_reason reason, int all) {
    int n = 0;
    for (int i = 0; i < mo_search_count(search) && n < NAMES; i++) {
        const struct mo_layer_result *r = mo_search_result(search, i);
        if (mo_left_reason(r) != reason) continue;
        fprintf(to, "%s%s", n++ ? ", " : "", r->name);
    }
    if (all > n) fprintf(to, " and %d more", all - n);
}

void mo_left_print(FILE *to, const struct mo_search *search, bool versions) {
    for (int reason = 0; reason < MO_LEFT_REASONS; reason++) {
        double work;
        int n = count(search, (enum mo_left_reason)reason, &work);
        if (!n) continue;
        fprintf(to, "left out: %d of %d layers (%.0f %% of the work), %s: ", n, mo_search_count(search),
                100 * work, reasons[reason].text);
        print_names(to, search, (enum mo_left_reason)reason, n);
        fprintf(to, "%s\n", reasons[reason].then);
    }
    int refused = 0;
    for (int i = 0; versions && i < mo_search_count(search); i++) {
        const struct mo_layer_result *r = mo_search_result(search, i);
        if (!r->refused[0] || ++refused > NAMES) continue;
        fprintf(to, "  %s: versions not kept: %s\n", r->name, r->refused);
    }
    if (refused > NAMES) fprintf(to, "  and %d more; --json lists them all\n", refused - NAMES);
}

json_t *mo_left_json(const struct mo_search *search) {
    json_t *list = json_array();
    for (int reason = 0; reason < MO_LEFT_REASONS; reason++) {
        double work;
        if (!count(search, (enum mo_left_reason)reason, &work)) continue;
        json_t *names = json_array();
        for (int i = 0; i < mo_search_count(search); i++) {
            const struct mo_layer_result *r = mo_search_result(search, i);
            if ((int)mo_left_reason(r) == reason) json_array_append_new(names, json_string(r->name));
        }
        json_array_append_new(
            list, json_pack("{ss so sf}", "reason", reasons[reason].key, "layers", names, "work", work));
    }
    return list;
}

int mo_left_tuned(const struct mo_search *search, double *work) {
    double more;
    int n = count(search, MO_LEFT_REASONS, work);
    n += count(search, MO_LEFT_BUILT_IN, &more); /* the built-in kernel alone is all that there is to know */
    *work += more;
    n += count(search, MO_LEFT_NONE, &more);
    *work += more;
    return n;
}
