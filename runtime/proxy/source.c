/* SPDX-License-Identifier: Apache-2.0
 * source.c - the table of sources; see source.h. */
#include "runtime/proxy/source.h"

#include <stdio.h>
#include <string.h>
#include "runtime/base/nearest.h"
#include "runtime/base/text.h"

const struct mo_source mo_source_slowdown = {
    .name = "slowdown",
    .about = "how much slower blocks are than alone; needs no counters",
};

const struct mo_source *const *mo_sources(void) {
    static const struct mo_source *const table[] = {&mo_source_papi, &mo_source_resctrl, &mo_source_slowdown,
                                                    NULL};
    return table;
}

const struct mo_source *mo_source_find(const char *name) {
    for (const struct mo_source *const *s = mo_sources(); *s; s++)
        if (!strcmp((*s)->name, name)) return *s;
    return NULL;
}

int mo_source_named(const struct mo_csv *csv, const char *name, size_t n, const struct mo_source **out) {
    char word[32];
    snprintf(word, sizeof word, "%.*s", n < sizeof word ? (int)n : (int)sizeof word, name);
    *out = n < sizeof word ? mo_source_find(word) : NULL;
    return *out ? MOIRE_OK : mo_csv_fail(csv, "no source of pressure is called %s", word);
}

int mo_source_unknown(const char *name, moire_error *err) {
    char list[80], hint[80];
    struct mo_text t = mo_text_in(list, sizeof list);
    struct mo_nearest nearest = {.word = name};
    mo_text_put(&t, "auto");
    for (const struct mo_source *const *s = mo_sources(); *s; s++) {
        mo_text_put(&t, ", %s", (*s)->name);
        mo_nearest_offer(&nearest, (*s)->name);
    }
    mo_nearest_text(&nearest, hint, sizeof hint);
    return mo_fail(err, MOIRE_EINVAL, "no source of pressure '%.100s'%s%s %s", name, hint,
                   *hint ? "  There are:" : "; there are:", list);
}

const struct mo_source *mo_source_first(const struct mo_source_config *config, void **self) {
    const struct mo_source *const *s = mo_sources();
    *self = NULL;
    for (moire_error err; (*s)->open; s++) {
        if (!(*s)->open(config, self, &err)) return *s;
        mo_log(config->env, MOIRE_LOG_INFO, "pressure: no %s: %s", (*s)->name, err.message);
    }
    return *s;
}
