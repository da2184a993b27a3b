/* SPDX-License-Identifier: Apache-2.0
 * labels.h - the remarks that every profile file may have, for reading and for writing. */
#ifndef MO_PROFILE_LABELS_H
#define MO_PROFILE_LABELS_H
#include "runtime/base/csv.h"

enum { MO_PROFILE_LABELS = 4 };

static inline void mo_profile_labels(const char **model, const char **machine, const char **source,
                                     const char **note, struct mo_csv_label out[MO_PROFILE_LABELS]) {
    out[0] = (struct mo_csv_label){"model", model};
    out[1] = (struct mo_csv_label){"machine", machine};
    out[2] = (struct mo_csv_label){"source", source};
    out[3] = (struct mo_csv_label){"note", note};
}
#endif
