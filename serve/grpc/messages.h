/* SPDX-License-Identifier: Apache-2.0
 * messages.h - protobuf messages: read within a bound, and made of JSON documents. */
#ifndef MS_MESSAGES_H
#define MS_MESSAGES_H
#include <jansson.h>
#include <protobuf-c/protobuf-c.h>
#include "moire.h"

/* Reads a message of n bytes.  What it takes in memory is bounded by its size, whatever it says.
 * Returns: MOIRE_OK, and *out is to be freed by protobuf_c_message_free_unpacked(); MOIRE_EINVAL: malformed,
 * or too large for its bytes. */
int ms_message_read(const ProtobufCMessageDescriptor *type, const char *from, size_t n,
                    ProtobufCMessage **out, moire_error *err);

/* A message whose fields are the members of the object that have their names; others are passed over, as are
 * values of another type.  A map is an object or a list of {key, value}.  Freed as above.
 * Returns: NULL: no memory. */
ProtobufCMessage *ms_message_of_json(const ProtobufCMessageDescriptor *type, const json_t *object);
#endif
