/* SPDX-License-Identifier: Apache-2.0
 * event_loop.c - a server of one thread that serves a model: libuv's loop, and answers that wake it.
 *
 *   cc event_loop.c $(pkg-config --cflags --libs moire libuv) -o event_loop && ./event_loop model.onnx 7000
 *   printf '1 0.5\n' | nc 127.0.0.1 7000
 *
 * A request is a line: a number of the client's choice, and the values of the model's input, or one for all.
 * The reply is a line with that number: `7 ok 0.25 0 1`, or `7 MOIRE_ESHAPE why`.  Replies come in the order
 * in which queries end.  A client that ends its side has hung up, and what it has asked is cancelled. SIGTERM
 * and SIGINT let what is accepted be answered first; a second one does not wait.
 *
 * The loop never waits for a model.  moire_submit() copies the input and returns; on_answer() runs on a
 * thread of the runtime, copies the outputs into the job, appends it to a list and wakes the loop, which
 * alone touches clients.  A client is freed when its handle is closed and its last job has come back, so a
 * job's client is always there. */
#include <moire.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { MOST_OPEN = 64, MOST_UNSENT = 1 << 20, NUMBER_CHARS = 32, VALUE_CHARS = 24 };

struct server {
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_async_t wake;
    uv_signal_t term, interrupt;
    int stopping;
    struct client *clients;
    moire_runtime *runtime;
    moire_tenant *tenant;
    moire_port input;
    size_t n_in, n_out, room; /* values of the input and the output; bytes of the longest line */
    float *values;            /* of the input, while a line is read */
    uv_mutex_t lock;          /* for: */
    struct job *answered, **last;
};

struct client {
    uv_tcp_t handle; /* first: its data is the server */
    struct server *server;
    struct client *next, **at;
    struct job *jobs; /* open queries */
    int n_jobs, closed;
    size_t used;
    char line[]; /* server->room */
};

struct job {
    struct job *next;      /* of the client's */
    struct job *next_done; /* of the answered ones */
    struct client *client;
    char number[NUMBER_CHARS];
    moire_query query;
    int code;
    size_t n;
    float values[]; /* server->n_out */
};

struct reply {
    uv_write_t request;
    char text[];
};

/* --- replies -------------------------------------------------------------------------------------------- */
static void hang_up(struct client *c);
static void go_on(struct client *c);

static void on_written(uv_write_t *request, int status) {
    struct client *c = request->handle->data;
    free(request->data);
    if (status < 0)
        hang_up(c);
    else
        go_on(c);
}

/* Takes over `reply`, whose text has that length. */
static void send_reply(struct client *c, struct reply *reply, size_t length) {
    uv_buf_t buffer = uv_buf_init(reply->text, (unsigned)length);
    reply->request.data = reply;
    if (uv_is_closing((uv_handle_t *)&c->handle) ||
        uv_write(&reply->request, (uv_stream_t *)&c->handle, &buffer, 1, on_written)) {
        free(reply);
        hang_up(c);
    }
}

static void refuse(struct client *c, const char *number, int code, const char *why) {
    const size_t size = NUMBER_CHARS + sizeof(moire_error) + 64;
    struct reply *reply = malloc(sizeof *reply + size);
    if (!reply) {
        hang_up(c);
        return;
    }
    int n = snprintf(reply->text, size, "%s %s %s\n", number, moire_code_name(code), why);
    send_reply(c, reply, (size_t)n < size ? (size_t)n : size - 1);
}

static void send_values(struct client *c, const struct job *job) {
    struct reply *reply = malloc(sizeof *reply + NUMBER_CHARS + 8 + job->n * VALUE_CHARS);
    if (!reply) {
        hang_up(c);
        return;
    }
    size_t length = (size_t)snprintf(reply->text, NUMBER_CHARS + 8, "%s ok", job->number);
    for (size_t i = 0; i < job->n; i++)
        length += (size_t)snprintf(reply->text + length, VALUE_CHARS, " %.9g", (double)job->values[i]);
    reply->text[length++] = '\n';
    send_reply(c, reply, length);
}

/* --- queries -------------------------------------------------------------------------------------------- */
/* On a thread of the runtime.  The loop is woken under the lock: who has taken the job may end the loop. */
static void on_answer(void *user, const moire_answer *answer) {
    struct job *job = user;
    struct server *s = job->client->server;
    job->code = answer->code;
    job->n = answer->code ? 0 : answer->outputs[0].bytes / sizeof(float);
    if (job->n > s->n_out) job->n = s->n_out;
    if (job->n) memcpy(job->values, answer->outputs[0].data, job->n * sizeof(float));
    uv_mutex_lock(&s->lock);
    *s->last = job;
    s->last = &job->next_done;
    uv_async_send(&s->wake);
    uv_mutex_unlock(&s->lock);
}

static void submit(struct client *c, const char *number) {
    struct server *s = c->server;
    struct job *job = calloc(1, sizeof *job + s->n_out * sizeof(float));
    if (!job) {
        refuse(c, number, MOIRE_ENOMEM, moire_code_text(MOIRE_ENOMEM));
        return;
    }
    job->client = c;
    memcpy(job->number, number, strlen(number) + 1);
    moire_tensor input = {.dtype = MOIRE_F32, .rank = s->input.rank, .data = s->values};
    memcpy(input.shape, s->input.shape, sizeof input.shape);
    input.bytes = s->n_in * sizeof(float);
    moire_error err;
    int code = moire_submit(s->tenant, &input, 1, 0, on_answer, job, &job->query, &err);
    if (code) { /* MOIRE_EBUSY: the queue is full, and the client may try again */
        free(job);
        refuse(c, number, code, err.message);
        return;
    }
    job->next = c->jobs;
    c->jobs = job;
    c->n_jobs++;
}

/* A line of that length, with a zero at its end: a number, then values. */
static void take_line(struct client *c, char *line, size_t bytes) {
    struct server *s = c->server;
    size_t length = strspn(line, "0123456789"), n = 0;
    char *at = line + length, *end;
    if (!length || length >= NUMBER_CHARS || (*at && *at != ' ') || strlen(line) != bytes) {
        refuse(c, "0", MOIRE_EINVAL, "a request is a number, and values of the input");
        return;
    }
    if (*at) *at++ = 0;
    for (; n < s->n_in; n++, at = end) {
        s->values[n] = strtof(at, &end);
        if (end == at) break;
    }
    at += strspn(at, " \r");
    if (*at || (n != 1 && n != s->n_in)) {
        char why[96];
        (void)snprintf(why, sizeof why, "give %zu values, or one for all; value %zu is none, or too many",
                       s->n_in, n + 1);
        refuse(c, line, MOIRE_EINVAL, why);
        return;
    }
    for (size_t i = 1; n == 1 && i < s->n_in; i++)
        s->values[i] = s->values[0];
    submit(c, line);
}

/* --- clients -------------------------------------------------------------------------------------------- */
static void end_if_idle(struct server *s) {
    if (!s->stopping || s->clients || uv_is_closing((uv_handle_t *)&s->wake)) return;
    uv_close((uv_handle_t *)&s->wake, NULL);
    uv_close((uv_handle_t *)&s->term, NULL);
    uv_close((uv_handle_t *)&s->interrupt, NULL);
}

static void release(struct client *c) {
    struct server *s = c->server;
    if (!c->closed || c->jobs) return;
    *c->at = c->next;
    if (c->next) c->next->at = c->at;
    free(c);
    end_if_idle(s);
}

static void on_closed(uv_handle_t *handle) {
    struct client *c = handle->data;
    c->closed = 1;
    release(c);
}

/* Its queries still come back: those that are cancelled soon, and without a reply. */
static void hang_up(struct client *c) {
    if (uv_is_closing((uv_handle_t *)&c->handle)) return;
    uv_close((uv_handle_t *)&c->handle, on_closed);
    for (struct job *job = c->jobs; job; job = job->next)
        (void)moire_cancel(c->server->runtime, job->query);
}

static void give_room(uv_handle_t *handle, size_t hint, uv_buf_t *out) {
    struct client *c = handle->data;
    (void)hint;
    *out = uv_buf_init(c->line + c->used, (unsigned)(c->server->room - c->used));
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
    struct client *c = stream->data;
    (void)buffer;
    if (n < 0) {
        hang_up(c);
        return;
    }
    c->used += (size_t)n;
    go_on(c);
}

/* Takes the lines that are there while the client has few open queries and reads its replies; else it is not
 * read from, and so cannot fill the memory. */
static void go_on(struct client *c) {
    uv_stream_t *stream = (uv_stream_t *)&c->handle;
    char *end, *from = c->line;
    size_t left = c->used;
    int may = 1;
    if (uv_is_closing((uv_handle_t *)stream)) return;
    while (!c->server->stopping &&
           (may = c->n_jobs < MOST_OPEN && uv_stream_get_write_queue_size(stream) < MOST_UNSENT) &&
           (end = memchr(from, '\n', left))) {
        *end++ = 0;
        take_line(c, from, (size_t)(end - from) - 1);
        if (uv_is_closing((uv_handle_t *)stream)) return;
        left -= (size_t)(end - from);
        from = end;
    }
    memmove(c->line, from, left);
    c->used = left;
    if (c->server->stopping) {
        (void)uv_read_stop(stream);
        if (!c->jobs && !uv_stream_get_write_queue_size(stream)) hang_up(c);
    } else if (!may) {
        (void)uv_read_stop(stream);
    } else if (left == c->server->room || uv_read_start(stream, give_room, on_read) == UV_ENOTCONN) {
        hang_up(c); /* a line longer than any request */
    }
}

static void on_client(uv_stream_t *listener, int status) {
    struct server *s = listener->data;
    struct client *c = status ? NULL : calloc(1, sizeof *c + s->room);
    if (!c) return;
    c->server = s;
    (void)uv_tcp_init(&s->loop, &c->handle);
    c->handle.data = c;
    c->at = &s->clients;
    c->next = s->clients;
    if (c->next) c->next->at = &c->next;
    s->clients = c;
    if (uv_accept(listener, (uv_stream_t *)&c->handle))
        hang_up(c);
    else
        go_on(c);
}

/* --- the loop ------------------------------------------------------------------------------------------- */
static void finish(struct job *job) {
    struct client *c = job->client;
    struct job **at = &c->jobs;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    c->n_jobs--;
    if (c->closed) {
        release(c);
    } else if (!uv_is_closing((uv_handle_t *)&c->handle)) {
        if (job->code)
            refuse(c, job->number, job->code, moire_code_text(job->code));
        else
            send_values(c, job);
        go_on(c);
    }
    free(job);
}

/* One call may stand for many answers. */
static void on_wake(uv_async_t *wake) {
    struct server *s = wake->data;
    uv_mutex_lock(&s->lock);
    struct job *job = s->answered;
    s->answered = NULL;
    s->last = &s->answered;
    uv_mutex_unlock(&s->lock);
    for (struct job *next; job; job = next) {
        next = job->next_done;
        finish(job);
    }
}

static void on_signal(uv_signal_t *handle, int number) {
    struct server *s = handle->data;
    const int again = s->stopping++;
    (void)number;
    if (!again) uv_close((uv_handle_t *)&s->listener, NULL);
    for (struct client *c = s->clients, *next; c; c = next) {
        next = c->next;
        if (again)
            hang_up(c);
        else
            go_on(c);
    }
    end_if_idle(s);
}

static int start(struct server *s, int port) {
    struct sockaddr_in address;
    struct sockaddr_storage bound;
    int length = sizeof bound, code = uv_ip4_addr("127.0.0.1", port, &address);
    if (!code) code = uv_loop_init(&s->loop);
    if (!code) code = uv_mutex_init(&s->lock);
    s->last = &s->answered;
    if (!code) code = uv_async_init(&s->loop, &s->wake, on_wake);
    if (!code) code = uv_signal_init(&s->loop, &s->term);
    if (!code) code = uv_signal_start(&s->term, on_signal, SIGTERM);
    if (!code) code = uv_signal_init(&s->loop, &s->interrupt);
    if (!code) code = uv_signal_start(&s->interrupt, on_signal, SIGINT);
    if (!code) code = uv_tcp_init(&s->loop, &s->listener);
    s->wake.data = s->term.data = s->interrupt.data = s->listener.data = s;
    if (!code) code = uv_tcp_bind(&s->listener, (const struct sockaddr *)&address, 0);
    if (!code) code = uv_listen((uv_stream_t *)&s->listener, 128, on_client);
    if (!code) code = uv_tcp_getsockname(&s->listener, (struct sockaddr *)&bound, &length);
    if (code) {
        (void)fprintf(stderr, "event_loop: port %d: %s\n", port, uv_strerror(code));
        return 1;
    }
    printf("listening on 127.0.0.1:%d\n", ntohs(((struct sockaddr_in *)&bound)->sin_port));
    return fflush(stdout);
}

static size_t count(const moire_port *port) {
    size_t n = port->dtype == MOIRE_F32 && port->rank >= 0;
    for (int i = 0; n && i < port->rank; i++)
        n *= (size_t)port->shape[i];
    return n;
}

static int load(struct server *s, const char *path) {
    moire_error err = {0};
    moire_port output;
    int code = moire_runtime_create(NULL, &s->runtime, &err);
    if (!code) code = moire_load(s->runtime, path, NULL, &s->tenant, &err);
    if (code) {
        (void)fprintf(stderr, "event_loop: %s: %s\n", moire_code_name(code), err.message);
        return 1;
    }
    if (moire_n_inputs(s->tenant) == 1 && !moire_input(s->tenant, 0, &s->input)) s->n_in = count(&s->input);
    if (!moire_output(s->tenant, 0, &output)) s->n_out = count(&output);
    s->room = s->n_in * VALUE_CHARS + NUMBER_CHARS;
    s->values = s->n_in && s->n_out ? malloc(s->n_in * sizeof(float)) : NULL;
    if (!s->values)
        (void)fprintf(stderr, "event_loop: the model needs one input and a first output of floats\n");
    return !s->values;
}

int main(int argc, char **argv) {
    struct server s = {0};
    if (argc != 3 || moire_abi_version() != MOIRE_ABI_VERSION) return 2;
    (void)signal(SIGPIPE, SIG_IGN); /* a client that is gone is told by the write */
    int failed = load(&s, argv[1]) || start(&s, (int)strtol(argv[2], NULL, 10));
    if (!failed) {
        moire_tenant_stats stats = {.size = sizeof stats};
        (void)moire_foreground(); /* it has a core at once where workers compute on all of them */
        failed = uv_run(&s.loop, UV_RUN_DEFAULT) || moire_tenant_get_stats(s.tenant, &stats, NULL);
        printf("%lld submitted, %lld ok, %lld cancelled\n", (long long)stats.counts.submitted,
               (long long)stats.counts.ok, (long long)stats.counts.cancelled);
    }
    moire_runtime_destroy(s.runtime, 1); /* a callback may still hold the lock until here */
    if (!failed) {
        uv_mutex_destroy(&s.lock);
        failed = uv_loop_close(&s.loop);
    }
    free(s.values);
    return failed ? 1 : 0;
}
