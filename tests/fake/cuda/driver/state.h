/* SPDX-License-Identifier: Apache-2.0
 * state.h - the inside of the fake driver.
 *
 * One lock guards everything; a stream's thread lets go of it while it computes and while it sleeps.  Every
 * entry point begins with enter(), which takes the lock and asks for injected faults, and ends with leave().
 */
#ifndef MO_FAKE_STATE_H
#define MO_FAKE_STATE_H
#define _GNU_SOURCE
#include <pthread.h>
#include "runtime/gpu/cuda/driver.h"
#include "tests/fake/cuda/fake.h"

/* CUresults that the fake gives of itself. */
enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    ILLEGAL_ADDRESS = 700,
    CAPTURE_UNSUPPORTED = 900,
    INVALID_RESOURCE = 915,
    UNKNOWN = 999
};

enum { DEFAULT_QUEUES = 8, MOST_QUEUES = 32 };
enum { FAULTS = 16, LAUNCHED = 16, STACK = 8, ARGUMENTS_BYTES = 256 };

struct sms {
    uint64_t w[MO_FAKE_SM_WORDS];
};

struct CUctx_st {
    struct CUctx_st *next;
    struct gpu *gpu;
    struct CUgreenCtx_st *green; /* NULL: primary */
    struct sms sms;
    int n_sms, current; /* threads that have it current */
};

struct CUgreenCtx_st {
    struct CUctx_st context;
};

struct CUdevResourceDesc_st {
    struct CUdevResourceDesc_st *next;
    struct gpu *gpu;
    struct sms sms;
    int n_sms;
};

/* One thing that a stream does, or a node of a graph. */
struct item {
    struct item *next;
    unsigned long ticket; /* in the order of being queued, on all streams */
    struct CUctx_st *context;
    const char *what;
    void (*fn)(struct item *item); /* NULL: nothing but time */
    void (*launched)(void *args);  /* of mo_fake_launch() */
    bool kernel;                   /* takes SMs */
    int64_t ns;
    struct CUevent_st *event;     /* to mark */
    struct CUgraphExec_st *graph; /* to run */
    void *to;                     /* copies */
    const void *from;
    size_t bytes;
    int value;
    struct kernel_call {
        struct CUkern_st *kernel;
        void *arguments[ARGUMENTS_BYTES / sizeof(void *)];
        unsigned grid[3], block[3];
    } call;
    unsigned char args[ARGUMENTS_BYTES]; /* of mo_fake_launch() */
};

struct CUstream_st {
    struct CUstream_st *next;
    struct CUctx_st *context;
    int priority, queue; /* the hardware's, which streams made later may share */
    struct item *first, *last;
    struct CUgraph_st *capturing;
    pthread_t thread;
    pthread_cond_t wake;
    struct item *doing; /* NULL: nothing */
    bool started, stop;
};

struct CUevent_st {
    struct CUevent_st *next;
    struct CUctx_st *context;
    unsigned asked, reached;
    int64_t when;
};

struct CUgraph_st {
    struct CUgraph_st *next;
    struct item *first, *last;
};

struct CUgraphExec_st {
    struct CUgraphExec_st *next;
    struct item *first;
};

struct CUkern_st {
    struct CUkern_st *next;
    char name[64];
    int n_arguments;
    unsigned ran; /* bit i: on GPU i, outside of a capture */
    void (*fn)(void *const *arguments, const unsigned grid[3], const unsigned block[3]);
};

struct CUlib_st {
    struct CUlib_st *next;
    void *object; /* NULL: the probe */
    struct CUkern_st *kernels;
};

struct block {
    struct block *next;
    void *at;
    size_t bytes;
    struct gpu *gpu; /* NULL: page-locked host memory; */
    bool foreign;    /* the caller's own */
};

struct waiter {
    struct waiter *next;
    const struct sms *sms;
    int priority, queue;
    unsigned long ticket;
};

struct gpu {
    int index;
    struct CUctx_st primary;
    int primary_users;
    size_t used;
    unsigned poison; /* what every call returns */
    bool told, hung;
    const char *launched[LAUNCHED]; /* functions of libraries that have run, by name */
    struct sms busy;
    uint32_t busy_queues; /* bit i: a kernel of that queue runs */
    int streams;          /* that were ever made */
    struct waiter *waiting;
};

struct call_fault {
    char symbol[64];
    int skip, times;
    unsigned result;
    bool on;
};

struct kernel_fault {
    char name[64];
    int skip;
    unsigned result;
    bool on;
};

struct fake {
    pthread_mutex_t lock;
    pthread_cond_t free_sms, idle;
    struct mo_fake_config config;
    struct gpu gpus[MO_FAKE_GPUS];
    struct CUgreenCtx_st *greens;
    struct CUdevResourceDesc_st *descs;
    struct CUstream_st *streams;
    struct CUevent_st *events;
    struct CUgraph_st *graphs;
    struct CUgraphExec_st *graph_execs;
    struct CUlib_st *libraries;
    struct block *blocks;
    struct mo_fake_record *records;
    int n_records, room, ended; /* kernels ended */
    unsigned long tickets, queued;
    unsigned splits;
    int queues; /* of every GPU */
    struct call_fault call_faults[FAULTS];
    struct kernel_fault kernel_faults[FAULTS];
    struct mo_fake_counts counts;
    bool ready;
};

extern struct fake fake;

#define PROTOTYPE(field, symbol, arguments) __attribute__((visibility("default"))) unsigned symbol arguments;
MO_CU_FUNCTIONS(PROTOTYPE)
#undef PROTOTYPE

/* control.c */
unsigned enter(const char *symbol, struct gpu *gpu);
unsigned leave(unsigned result);
void mistake(const char *what);
void *make(size_t bytes); /* zeroed; ends the process when there is none */
int64_t now_ns(void);
/* A number that the environment names, `otherwise` where it names none. */
int from_environment(const char *name, int otherwise);
struct timespec at_ns(int64_t when);

/* context.c */
struct gpu *gpu_of(int device); /* NULL: none */
struct CUctx_st *current(void); /* NULL: none */
struct gpu *current_gpu(void);
void drop_current(void);
/* Has another thread than this one a green context current? */
bool is_elsewhere(const struct CUctx_st *c);
const char *error_name(unsigned result, const char **text);

/* stream.c */
unsigned push(struct CUstream_st *s, const struct item *item); /* or into the graph it captures */
void end_stream(struct CUstream_st *s); /* the lock is held, and let go while it waits */
/* Waits for what was queued until now on a GPU, NULL: on all, as the real driver does before it takes away
 * what that may use.  The lock is held, and let go while it waits. */
void settle(const struct gpu *gpu);
void free_items(struct item *first);
void record(const struct item *item, const struct CUstream_st *s, int64_t begin, int64_t end);

/* kernel.c */
int64_t kernel_ns(const struct CUctx_st *c, const unsigned grid[3]);
void run_probe(struct item *item);

/* memory.c */
bool device_range(const struct gpu *gpu, mo_cu_ptr at, size_t bytes);
#endif
