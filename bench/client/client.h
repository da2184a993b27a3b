/* SPDX-License-Identifier: Apache-2.0
 * client.h - the load generator's side of a network: asks a model server queries and hands on their answers.
 *
 * One thread owns all sockets (client.c); whoever asks gives it an exchange and goes on.  A protocol
 * (HTTP/1.1 in http_wire.c, gRPC in grpc_wire.c) turns exchanges into the bytes of a connection and back.
 * What a connection carries at once is the protocol's; where all are taken another one is opened, so that no
 * query waits for another query's answer, and beyond MO_CLIENT_IN_FLIGHT one is refused: never a silent
 * queue.
 *
 * Invariants.  done() is called once for every exchange that mo_client_ask() took, whatever the server does.
 * What a server sends is hostile: every length is bounded, and an answer counts only if it has the tensors
 * that were asked for. */
#ifndef MO_CLIENT_H
#define MO_CLIENT_H
#include <pthread.h>
#include <stdatomic.h>
#include "bench/data/scenario.h"
#include "runtime/base/env.h"
#include "serve/protocol/bytes.h"

enum {
    MO_CLIENT_IN_FLIGHT = 512,       /* queries on their way */
    MO_CLIENT_HEAD_BYTES = 16384,    /* most of an answer's head */
    MO_CLIENT_ANSWER_BYTES = 1 << 26 /* most of an answer */
};

/* What a query of one tenant sends. */
struct mo_client_model {
    const char *name; /* the server's */
    const char *input[MO_BENCH_MAX_INPUTS];
    moire_tensor tensor[MO_BENCH_MAX_INPUTS];
    int n_inputs;
    bool json; /* over HTTP: tensors as JSON both ways, for servers that know nothing else */
    _Atomic size_t answer_bytes; /* of all tensors of an answer; 0: the first one says it */
    struct ms_bytes request;     /* as the protocol sends it, filled in */
};

struct mo_client_link;
struct mo_exchange {
    struct mo_client_model *model;
    void (*done)(struct mo_exchange *x, int code); /* on the client's thread; MOIRE_OK or why not */
    void *user;
    int index;
    /* the client's */
    struct mo_exchange *next;
    bool again; /* it had a connection before, which the server had closed */
};

struct mo_client;
struct mo_client_protocol {
    const char *name;
    /* What all connections share, *shared; NULL: nothing. */
    int (*start)(void **shared, moire_error *err);
    void (*end)(void *shared);
    int (*prepare)(struct mo_client_model *model, moire_error *err); /* fills its request */
    /* A connection; NULL: no memory. */
    void *(*open)(struct mo_client_link *link, void *shared);
    void (*close)(void *wire);
    bool (*has_room)(void *wire);
    int (*begin)(void *wire, struct mo_exchange *x); /* not 0: the connection is of no use */
    /* More to send, valid until the next call; 0: nothing. */
    size_t (*next)(void *wire, const char **bytes);
    /* Not 0: the server breaks the rules, or has said goodbye. */
    int (*take)(void *wire, const char *bytes, size_t n);
    /* Takes out one exchange that has no answer; NULL: none.  *untouched: the server has seen nothing of it.
     */
    struct mo_exchange *(*orphan)(void *wire, bool *untouched);
};
extern const struct mo_client_protocol mo_client_http, mo_client_grpc;
/* By name, "http" or "grpc"; NULL: none. */
const struct mo_client_protocol *mo_client_protocol(const char *name);

/* A client of the server at 127.0.0.1, `port`.  Connections are opened as they are needed. */
int mo_client_create(const struct mo_client_protocol *protocol, int port, struct mo_client **out,
                     moire_error *err);
/* What is on its way ends with MOIRE_ECANCELLED.  NULL is fine. */
void mo_client_destroy(struct mo_client *client);
/* From any thread; x must live until done().  Returns: MOIRE_OK; MOIRE_EBUSY: MO_CLIENT_IN_FLIGHT are on
 * their way, and done() is not called. */
int mo_client_ask(struct mo_client *client, struct mo_exchange *x);
/* Waits until nothing is on its way.  Returns: MOIRE_OK; MOIRE_EEXPIRED: after so many milliseconds it was.
 */
int mo_client_wait(struct mo_client *client, int ms);
/* What the first query since the last call failed of, "" where none did. */
void mo_client_why(struct mo_client *client, char *out, size_t n);

/* For protocols: an exchange has its answer or never will. */
void mo_client_ended(struct mo_client_link *link, struct mo_exchange *x, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Whether an answer has as many bytes of tensors as one of this model must have; ends the exchange. */
void mo_client_judge(struct mo_client_link *link, struct mo_exchange *x, size_t tensor_bytes);
#endif
