/* SPDX-License-Identifier: Apache-2.0
 * store_json.h - what the parsers of the store's JSON files share.  Hostile input. */
#ifndef MO_STORE_JSON_H
#define MO_STORE_JSON_H
#include <jansson.h>
#include "variants/store_format.h"

/* One field of a description and where it goes. */
struct mo_store_field {
    const char *name;
    enum {
        MO_FIELD_TEXT,
        MO_FIELD_DIGEST,
        MO_FIELD_COUNT,
        MO_FIELD_NUMBER,
        MO_FIELD_ISA,
        MO_FIELD_LATER_COUNT, /* files of older versions lack it: `to` keeps what it holds */
        MO_FIELD_LATER_NUMBER,
        MO_FIELD_LATER_TEXT
    } type;
    void *to;
    size_t cap; /* of texts */
};
/* The body of an envelope whose digest and format number are right, parsed; NULL with the reason otherwise.
 */
json_t *mo_store_open_envelope(const char *bytes, size_t n, moire_error *err);
/* Takes the fields (name NULL ends) out of an object; MOIRE_ESTORE names the one that is off. */
int mo_store_take_fields(const json_t *body, const struct mo_store_field *fields, moire_error *err);
#endif
