/* SPDX-License-Identifier: Apache-2.0
 * grpc.h - the gRPC door: connections, calls and the messages of a call.
 *
 * One thread (grpc.c) owns all of it: it accepts, reads, parses and writes.  nghttp2 turns the bytes of a
 * connection (grpc_connection.c) into streams; a stream is a call (grpc_call.c) of one of the methods in
 * grpc_methods.c; each message that a call sends is an item, which waits for its query or its load and is
 * answered in the order in which it came.  A unary call is a call of one item.
 *
 * Invariants.  Nobody but that thread touches a connection, a call or an item, except that whoever ends an
 * item's work calls ms_item_ended() once, as its last deed.  A call outlives its stream until its items have
 * ended, and a connection its socket until its calls have, so that no answer finds its place gone. */
#ifndef MS_GRPC_H
#define MS_GRPC_H
#include <protobuf-c/protobuf-c.h>
#include <stdatomic.h>
#include "serve/access/access.h"
#include "serve/grpc/h2.h"
#include "serve/net/coding.h"
#include "serve/net/handshake.h"
#include "serve/net/request_log.h"
#include "serve/query/infer_query.h"

/* Bounds; docs/serving.md has them in its table of limits. */
enum {
    MS_GRPC_LISTENERS = 2, /* TCP, a file */
    MS_GRPC_CONNECTIONS = 1000,
    MS_GRPC_STREAMS = 128,           /* open at once, a connection */
    MS_GRPC_CALLS = 256,             /* the same, and those that clients left while they were worked on */
    MS_GRPC_ITEMS = 16,              /* under way, a call; then its client has to wait */
    MS_GRPC_WINDOW = 1 << 20,        /* bytes that a stream may send ahead */
    MS_GRPC_WRITE_BYTES = 256 << 10, /* that a connection gathers before it writes them */
    MS_GRPC_HEADER_BYTES = 16384,    /* of a request */
    MS_GRPC_BUDGET_BODIES = 16,      /* largest messages that all connections together may hold */
    MS_GRPC_STUCK_SECONDS = 60,      /* that a request or an answer may stand still */
    MS_GRPC_IDLE_SECONDS = 600,      /* that a connection may go without a byte */
    MS_GRPC_PREFIX = 5               /* bytes before a message: whether it is compressed, its length */
};

/* A socket on which clients come. */
struct ms_grpc_listener {
    int fd; /* -1: none */
    bool by_tls;
};
/* A client whose handshake is over. */
struct ms_arrival {
    int fd;
    struct ms_channel *channel;
    struct ms_arrival *next;
};

struct ms_grpc {
    struct ms_h2 h2;
    struct ms_zlib zlib; /* without it compressed messages are refused */
    struct ms_repository *repository;
    moire_runtime *runtime;
    size_t body_bytes; /* most of a message */
    const struct ms_log *log;
    struct ms_tls *tls; /* NULL: sockets of TCP are plain, too */
    struct ms_handshakes *handshakes;
    struct ms_access *access;  /* NULL: everybody may do everything */
    bool control_is_elsewhere; /* HTTP has a listener for it */
    struct ms_grpc_listener listener[MS_GRPC_LISTENERS];
    int n_listeners; /* 0 once it drains */
    int epoll, wake;
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    pthread_t thread;
    bool runs;
    struct ms_connection *first;
    int n_connections;
    size_t held; /* bytes of all messages that are being received or worked on */
    int64_t swept_ns;
    atomic_bool draining, ends;
    _Atomic(struct ms_item *) ended; /* the last one first */
    atomic_int leaving;              /* threads inside of ms_item_ended() */
    pthread_mutex_t lock;            /* of the list that follows */
    struct ms_arrival *arrived;
};

struct ms_connection {
    struct ms_grpc *door;
    struct ms_connection *next, *previous;
    int fd;                     /* -1: closed */
    struct ms_channel *channel; /* NULL: plain */
    nghttp2_session *session;
    struct ms_bytes out; /* goes to the socket, from `sent` */
    size_t sent;
    bool waits_to_write, said_goodbye;
    struct ms_call *first;
    int n_calls;
    int64_t moved_ns;
};

struct ms_call {
    struct ms_connection *connection;
    struct ms_call *next, *previous;
    int32_t stream; /* 0: closed */
    const struct ms_method *method;
    char path[128];
    struct ms_ids ids;
    struct ms_bearer bearer;
    bool is_grpc, has_begun;
    enum ms_coding coding; /* of compressed messages */
    size_t header_bytes;
    int64_t timeout_us;
    struct ms_bytes in; /* received, no whole message yet */
    size_t unread;      /* bytes received that the stream's window was not given back */
    bool has_message, received_all;
    struct ms_item *first, *last;
    int n_items;
    struct ms_bytes out; /* messages to send, from `sent` */
    size_t sent;
    bool has_answered; /* HEADERS went out */
    bool finished;     /* nothing comes behind `out` but the status */
    int status;
    char message[600];
    int64_t moved_ns;
};

struct ms_item {
    struct ms_call *call;
    struct ms_item *next, *next_ended;
    struct ms_bytes body; /* the message that the request of an infer method points into */
    ProtobufCMessage *request;
    size_t bytes; /* of the door's `held` */
    int64_t begun_ns;
    struct ms_query *query;
    ProtobufCMessage *answer; /* NULL: method->pack() makes it, once the item has ended */
    moire_error error;
    int told; /* the state of health that was said last */
    bool has_ended;
};

/* grpc.c.  Opens the library; takes sockets that are bound already, which are the door's from now on; starts.
 * The door's options are set between the first two. */
int ms_grpc_open(struct ms_grpc *door, moire_error *err);
int ms_grpc_listen(struct ms_grpc *door, int socket, bool by_tls, moire_error *err);
int ms_grpc_start(struct ms_grpc *door, moire_error *err);
/* In place of the last, where the caller is the door's thread: once, and then rounds, each of which waits
 * `ms` at most and handles what has come. */
int ms_grpc_prepare(struct ms_grpc *door, moire_error *err);
void ms_grpc_round(struct ms_grpc *door, int ms);
/* Takes no further call; open ones go on. */
void ms_grpc_quiesce(struct ms_grpc *door);
/* Answers what is under way (clients have `seconds` to read it) and closes all.  Fine if never opened. */
void ms_grpc_close(struct ms_grpc *door, int seconds);
/* From any thread. */
void ms_item_ended(void *item);
int64_t ms_grpc_now(void); /* of the monotonic clock */
void ms_grpc_wake(const struct ms_grpc *door);

/* grpc_accept.c */
void ms_grpc_accept(struct ms_grpc *door, const struct ms_grpc_listener *listener);
int ms_grpc_watch(struct ms_grpc *door); /* its listeners, where they are not watched */
void ms_grpc_unlisten(struct ms_grpc *door);
/* From any thread: a client is ready (struct ms_handshake_options). */
void ms_grpc_arrived(void *door, int socket, struct ms_channel *channel);
void ms_grpc_take_arrived(struct ms_grpc *door);

/* grpc_connection.c */
/* Takes over both; closes them where there is no room. */
void ms_connection_new(struct ms_grpc *door, int fd, struct ms_channel *channel);
void ms_connection_read(struct ms_connection *c);
void ms_connection_write(struct ms_connection *c);
/* What stands still too long is ended. */
void ms_connection_sweep(struct ms_connection *c, int64_t now_ns);
void ms_connection_say_goodbye(struct ms_connection *c);
/* Its socket; the rest goes with its last call. */
void ms_connection_close(struct ms_connection *c);
void ms_connection_release(struct ms_connection *c);
nghttp2_session_callbacks *ms_connection_callbacks(const struct ms_h2 *h2);

/* grpc_call.c */
struct ms_call *ms_call_new(struct ms_connection *c, int32_t stream); /* NULL: no memory */
void ms_call_header(struct ms_call *call, const char *name, size_t name_n, const char *value, size_t n);
void ms_call_begin(struct ms_call *call);
/* The status is that; the call takes nothing more, and sends what it has. */
void ms_call_finish(struct ms_call *call, int code, const char *message);
void ms_call_stream_closed(struct ms_call *call);
void ms_call_drop_item(struct ms_call *call); /* the first */
/* Looks at an item that goes on; fine where the call has none. */
void ms_call_look(struct ms_call *call);
void ms_call_release(struct ms_call *call); /* frees it where nothing refers to it any more */

/* grpc_access.c.  May the client begin such a call?  And, now that the model is named, that?  Returns: as
 * ms_access_check(). */
int ms_call_allow(const struct ms_call *call, moire_error *err);
int ms_item_allow(const struct ms_item *item, moire_error *err);

/* grpc_receive.c */
void ms_call_receive(struct ms_call *call, const uint8_t *data, size_t n);
void ms_call_received_all(struct ms_call *call);
void ms_call_item_ended(struct ms_item *item);
/* Answers what has ended, begins what waits for that, and hands it to nghttp2. */
void ms_call_go_on(struct ms_call *call);

/* grpc_answer.c */
void ms_call_send(struct ms_call *call);
/* nghttp2's, for a frame of a body: head and n bytes of the body go to the connection's buffer. */
int ms_call_put_frame(nghttp2_session *session, nghttp2_frame *frame, const uint8_t *head, size_t n,
                      nghttp2_data_source *source, void *user);
/* Appends a message to what is to be sent. */
void ms_call_put(struct ms_call *call, const ProtobufCMessage *message);

/* grpc_methods.c */
struct ms_method {
    const char *name;
    const ProtobufCMessageDescriptor *request, *answer;
    enum ms_right right; /* that a call needs; MODEL: on the model that each message names */
    /* where the request names its model, which may then be looked at by those with a right on it; 0: nowhere
     */
    size_t model_at, version_at;
    bool is_stream; /* takes and sends any number of messages; an item's error is an answer too */
    /* Sets item->answer, or starts what calls ms_item_ended(); not both. */
    int (*begin)(struct ms_item *item, moire_error *err);
    /* Appends the answer of an item that was started. */
    void (*pack)(struct ms_item *item);
    /* Of an item that goes on until its client leaves or the server drains: called once a second, and when it
     * drains; sends what is new, and ends the item where its call is finished.  NULL: it ends by itself. */
    void (*look)(struct ms_item *item);
};
const struct ms_method *ms_method_find(const char *path); /* NULL: there is none */

/* The answer is that document, which is taken over. */
int ms_grpc_answer(struct ms_item *item, json_t *document, moire_error *err);

/* grpc_health.c.  Ready, and not draining; the model is given back. */
bool ms_health_of_server(const struct ms_item *item);
bool ms_health_of_model(const struct ms_item *item, struct ms_model *model);
const struct ms_method *ms_health_method(const char *name); /* NULL: there is none */

/* grpc_settings.c */
int ms_grpc_trace(struct ms_item *item, moire_error *err);
int ms_grpc_log(struct ms_item *item, moire_error *err);

/* grpc_regions.c */
int ms_grpc_regions(struct ms_item *item, moire_error *err);
int ms_grpc_register(struct ms_item *item, moire_error *err);
int ms_grpc_unregister(struct ms_item *item, moire_error *err);
int ms_grpc_no_regions(struct ms_item *item, moire_error *err);
int ms_grpc_no_register(struct ms_item *item, moire_error *err);
int ms_grpc_no_unregister(struct ms_item *item, moire_error *err);

/* grpc_infer.c */
int ms_grpc_infer(struct ms_item *item, moire_error *err);
void ms_grpc_pack_infer(struct ms_item *item);
void ms_grpc_pack_stream(struct ms_item *item);
#endif
