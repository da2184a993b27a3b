/* SPDX-License-Identifier: Apache-2.0
 * list_step.h - a step of an ensemble whose model runs once for each item of a list.
 *
 * How many lines of text an image has is known only when it has been looked at, and each has a size of its
 * own, so they are no batch.  A list is two tensors: the elements of all items one behind the other, [-1],
 * and their shapes, int64 [items, rank].  A step takes lists where its input_map has, beside a port NAME, a
 * tensor for NAME:shapes; then all its inputs are lists of as many items, and so are its outputs.
 *
 * A list of none is answered at once.  Some items are under way at a time, each a query as that of any step,
 * with the step's target; the first that fails or a cancellation ends the step, when what runs has ended.
 *
 * Locks: a list's is taken with no other.  Items are begun and cancelled under none. */
#ifndef MS_LIST_STEP_H
#define MS_LIST_STEP_H
#include "serve/pipeline/ensemble.h"

/* Items of a list, those of it under way at once, and bytes of all answers. */
enum { MS_ITEMS = 1024, MS_ITEMS_AT_ONCE = 8, MS_ITEMS_BYTES = 256 << 20 };

/* Whether a port's name is NAME:shapes. */
bool ms_list_is_shapes(const char *port);

/* What a model takes and gives when it runs for each item of lists. */
enum { MS_PORT_NAME = 128 };
struct ms_list_ports {
    moire_port port[2][MS_PORTS];
    char name[2][MS_PORTS / 2][MS_PORT_NAME]; /* of shapes */
};
/* Turns *ports into those, which lie in *room.  false: more than MS_PORTS, or a name that is too long. */
bool ms_list_ports(struct ms_ports *ports, struct ms_list_ports *room);

/* A list that comes in. */
struct ms_list {
    const char *port;
    const moire_tensor *values, *shapes;
    size_t at; /* bytes of it that were begun */
};
/* Whether the shapes are those of items that fill the values, n of them (-1: any number). */
int ms_list_check(const struct ms_list *list, int n, moire_error *err);
/* An item's type and shape; *bytes: of its elements, -1: it is no shape. */
moire_tensor ms_list_item(const struct ms_list *list, int index, int64_t *bytes);

/* --- queries; see infer_query.h */
struct ms_query;
struct ms_items;
/* Starts the query of such a step in place of ms_query_start(): its `done` is called once, and its model
 * given back; statistics of the model count the items. */
void ms_items_start(struct ms_query *whole);
void ms_items_cancel(struct ms_items *items);
void ms_items_free(struct ms_items *items); /* NULL is fine */
#endif
