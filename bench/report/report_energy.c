/* SPDX-License-Identifier: Apache-2.0
 * report_energy.c - joules of a run, said with what they rest on; see headline.h. */
#include <string.h>
#include "bench/report/headline.h"
#include "runtime/base/text.h"

int mo_doc_energy(const json_t *document, char (*lines)[MO_HEADLINE], int most) {
    int n = 0;
    size_t i;
    json_t *r, *e;
    json_array_foreach(json_object_get(document, "results"), i, r) {
        if (n == most || !(e = json_object_get(r, "energy"))) continue;
        struct mo_text text = mo_text_in(lines[n++], MO_HEADLINE);
        mo_text_put(&text, "%.40s: %.2f J %s in %.1f s at load %.2f: %.2f W, %.4g J a query.",
                    mo_json_text(r, "name"), mo_json_number(e, "joules"), mo_json_text(e, "basis"),
                    mo_json_number(e, "seconds"), mo_json_number(e, "load"), mo_json_number(e, "watts"),
                    mo_json_number(e, "joules_query"));
        if (strcmp(mo_json_text(e, "basis"), "measured") != 0)
            mo_text_put(&text,
                        " Modelled joules rest on assumed watts, which `moire devices --power` names.");
    }
    return n;
}
