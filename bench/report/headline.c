/* SPDX-License-Identifier: Apache-2.0
 * headline.c - see headline.h. */
#include "bench/report/headline.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "bench/report/series.h"
#include "runtime/base/text.h"

enum { MOST_LOADS = 4 };

/* --- who is compared ---------------------------------------------------------------------------------- */
const struct mo_curve *mo_headline_lead(const struct mo_curve *curves, int n) {
    static const char *const own[] = {"moire/moire", "moire/moire-gpu"};
    for (size_t k = 0; k < sizeof own / sizeof *own; k++)
        for (int i = 0; i < n; i++)
            if (!strcmp(curves[i].name, own[k])) return &curves[i];
    for (int i = 0; i < n; i++)
        if (curves[i].moire && !curves[i].limit) return &curves[i];
    return NULL;
}

static const char *lead_name(const struct mo_curve *lead) {
    return !strncmp(lead->name, "moire/moire", 11) ? "moire" : lead->name;
}

/* Is the curve a rival?  Peers are, or other policies when there are no peers. */
static bool is_rival(const struct mo_curve *c, const struct mo_curve *lead, bool peers) {
    return c != lead && !c->limit && !c->moire == peers;
}

static bool any_peer(const struct mo_curve *curves, int n) {
    for (int i = 0; i < n; i++)
        if (!curves[i].moire) return true;
    return false;
}

/* --- after a search ----------------------------------------------------------------------------------- */
static double found(const struct mo_curve *c, bool every) {
    return every ? c->max_every : c->max_overall;
}

static const struct mo_curve *best_found(const struct mo_curve *curves, int n, const struct mo_curve *lead,
                                         bool every) {
    const struct mo_curve *best = NULL;
    const bool peers = any_peer(curves, n);
    for (int i = 0; i < n; i++) {
        if (!is_rival(&curves[i], lead, peers) || found(&curves[i], every) < 0) continue;
        if (!best || found(&curves[i], every) > found(best, every)) best = &curves[i];
    }
    return best;
}

/* "up to load 0.65", with its range over seeds, and whether the search ended there. */
static void put_load(struct mo_text *t, const struct mo_curve *c, bool every) {
    const double *range = every ? c->max_every_range : c->max_overall_range, load = found(c, every);
    if (!(load > 0)) {
        mo_text_put(t, "at no load that was tried");
        return;
    }
    mo_text_put(t, "up to load %.2f", load);
    if (range[1] > range[0] + 1e-9) mo_text_put(t, " (%.2f to %.2f by seed)", range[0], range[1]);
    if (c->n && load > c->load[c->n - 1] - 1e-9) mo_text_put(t, ", the highest tried");
}

/* every: of every tenant's queries, of which one tenant has all. */
static void searched(struct mo_text *t, const struct mo_curve *curves, int n, const struct mo_curve *lead,
                     double goal, bool every, bool one) {
    const struct mo_curve *rival = best_found(curves, n, lead, every);
    if (every && one)
        mo_text_put(t, "%s keeps %.4g %% in time ", lead_name(lead), 100 * goal);
    else if (every)
        mo_text_put(t, "%s keeps every tenant at %.4g %% ", lead_name(lead), 100 * goal);
    else
        mo_text_put(t, "Of all queries together it keeps %.4g %% in time ", 100 * goal);
    put_load(t, lead, every);
    if (!rival) {
        mo_text_put(t, ".");
        return;
    }
    const char *who = rival->moire ? "other policies" : "peers";
    if (found(rival, every) > 0) {
        mo_text_put(t, "; best of the %s (%s) ", who, rival->name);
        put_load(t, rival, every);
    } else {
        mo_text_put(t, "; the %s at none", who);
    }
    mo_text_put(t, ".");
}

static bool limit(struct mo_text *t, const struct mo_curve *curves, int n, double goal) {
    for (int i = 0; i < n; i++) {
        if (strcmp(mo_series_policy(curves[i].name), "bound") != 0 || !(curves[i].max_every > 0)) continue;
        mo_text_put(t, "No scheduler whatsoever can keep every tenant at %.4g %% beyond load %.2f.",
                    100 * goal, curves[i].max_every);
        return true;
    }
    return false;
}

/* --- at the loads that were asked for ----------------------------------------------------------------- */
static double at(const struct mo_curve *c, double load, bool every) {
    int i = mo_curve_at(c, load);
    return i < 0 ? -1 : every ? c->worst[i] : c->overall[i];
}

static const struct mo_curve *best_at(const struct mo_curve *curves, int n, const struct mo_curve *lead,
                                      double load, bool every) {
    const struct mo_curve *best = NULL;
    const bool peers = any_peer(curves, n);
    for (int i = 0; i < n; i++) {
        if (!is_rival(&curves[i], lead, peers) || at(&curves[i], load, every) < 0) continue;
        if (!best || at(&curves[i], load, every) > at(best, load, every)) best = &curves[i];
    }
    return best;
}

static void put_rival(struct mo_text *t, const struct mo_curve *rival, double load, bool every) {
    if (!rival) return;
    const char *who = rival->moire ? "other policies" : "peers";
    if (at(rival, load, every) > 0)
        mo_text_put(t, " (best of the %s: %.1f %%, %s)", who, 100 * at(rival, load, every), rival->name);
    else
        mo_text_put(t, " (the %s none)", who);
}

static void at_load(struct mo_text *t, const struct mo_curve *curves, int n, const struct mo_curve *lead,
                    double load, bool one) {
    mo_text_put(t, "At load %.2f %s answers %.1f %% of all queries in time", load, lead_name(lead),
                100 * at(lead, load, false));
    put_rival(t, best_at(curves, n, lead, load, false), load, false);
    if (!one) {
        mo_text_put(t, ", and %.1f %% of those of its worst tenant", 100 * at(lead, load, true));
        put_rival(t, best_at(curves, n, lead, load, true), load, true);
    }
    mo_text_put(t, ".");
}

/* --- all ---------------------------------------------------------------------------------------------- */
int mo_headline(const json_t *document, const struct mo_curve *curves, int n, char (*lines)[MO_HEADLINE]) {
    const struct mo_curve *lead = mo_headline_lead(curves, n);
    const double goal = mo_json_number(document, "goal");
    const bool one = mo_doc_one_tenant(document);
    int count = 0;
    if (lead && goal > 0) {
        for (int every = 1; every >= one; every--) {
            if (found(lead, every) < 0) continue;
            struct mo_text t = mo_text_in(lines[count++], MO_HEADLINE);
            searched(&t, curves, n, lead, goal, every, one);
        }
        struct mo_text t = mo_text_in(lines[count], MO_HEADLINE);
        count += limit(&t, curves, n, goal);
    }
    for (int i = lead && !count ? lead->n - 1 : -1; i >= 0 && count < MOST_LOADS; i--) {
        struct mo_text t = mo_text_in(lines[count++], MO_HEADLINE);
        at_load(&t, curves, n, lead, lead->load[i], one);
    }
    if (!count)
        snprintf(lines[count++], MO_HEADLINE,
                 n ? "Only peers were measured: the table compares them." : "Nothing was measured.");
    if (json_is_false(json_object_get(document, "complete")))
        snprintf(lines[count++], MO_HEADLINE,
                 "The run was cut short: this is of what had been measured until then.");
    return count;
}

json_t *mo_headline_json(const struct mo_env *env, const json_t *document) {
    struct mo_curve *curves = mo_alloc(env, MO_CURVES * sizeof *curves);
    char lines[MO_HEADLINES][MO_HEADLINE];
    if (!curves) return NULL;
    int n = mo_headline(document, curves, mo_doc_curves(document, curves), lines);
    mo_free(env, curves);
    json_t *list = json_array();
    for (int i = 0; i < n; i++)
        json_array_append_new(list, json_string(lines[i]));
    return list;
}

json_t *mo_headline_before(json_t *lines, const json_t *document) {
    json_t *out = lines ? json_object() : NULL;
    if (!out) {
        json_decref(lines);
        return NULL;
    }
    if (!json_object_set_new(out, "headline", lines) && !json_object_update_missing(out, (json_t *)document))
        return out;
    json_decref(out);
    return NULL;
}

json_t *mo_headline_first(const struct mo_env *env, const json_t *document) {
    return mo_headline_before(mo_headline_json(env, document), document);
}
