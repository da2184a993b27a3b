/* SPDX-License-Identifier: Apache-2.0
 * slow_show.c - see slow_show.h. */
#include "tools/moire/slow_show.h"

#include <stdio.h>

void mo_slow_warn(const char *verb, const char *file, const struct mo_slow *slow) {
    char line[MO_SLOW_TEXT];
    if (!slow || !slow->layers) return;
    mo_slow_text(slow, line, sizeof line);
    fprintf(stderr, "moire %s: '%s': %s\n", verb, file, line);
}

json_t *mo_slow_json(const struct mo_slow *slow) {
    char line[MO_SLOW_TEXT];
    if (!slow || !slow->layers) return json_null();
    mo_slow_text(slow, line, sizeof line);
    json_t *kinds = json_array();
    for (int i = 0; i < slow->n_rows; i++)
        json_array_append_new(kinds, json_pack("{ss si sf}", "what", slow->row[i].what, "layers",
                                               slow->row[i].layers, "share", slow->row[i].share));
    return json_pack("{ss si si sf sb so}", "text", line, "layers", slow->layers, "of", slow->of, "share",
                     slow->share, "measured", slow->measured, "kinds", kinds);
}
