/* SPDX-License-Identifier: Apache-2.0
 * fake.h - a CUDA driver without a GPU, for tests: a libcuda.so.1 that computes.
 *
 * Device memory is host memory.  A stream is a thread that carries its work out in order.  SMs are numbers: a
 * context has a set of them, a kernel takes those of its context, and kernels whose SMs meet run one after
 * the other, higher priority first, so that lets of disjoint SMs run side by side and others do not.  A
 * kernel's time is what the model below says, slept after it was computed.  Events note the clock when the
 * stream reaches them. A captured graph keeps the context that each node was captured in, as the real one
 * does.
 *
 * A function that has never run is refused while a stream is captured, as the real driver refuses to load it
 * then.
 *
 * What ran on which SMs when is recorded, and so is what the real driver would not forgive (two threads
 * inside one green context, a wait that could block for ever): tests read both.
 *
 * Streams are dealt out to hardware queues, as many as CUDA_DEVICE_MAX_CONNECTIONS says when the driver is
 * started, 8 by default and 32 at most.  Kernels of streams that share one run one after the other, on
 * whatever SMs.
 *
 * One state a process, reached through mo_fake_cuda(): by dlsym in the object that the plugin loaded.  Fakes
 * of cuDNN, cuBLASLt and NVRTC link against this one and use mo_fake_launch() and images. */
#ifndef MO_FAKE_CUDA_H
#define MO_FAKE_CUDA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MO_FAKE_SM_WORDS = 8, MO_FAKE_GPUS = 8 };

/* Zero fields mean: an H200 (132 SMs, groups of 8 in steps of 8, level 13.0, priorities 0 to -5, 16 MiB of
 * memory), times of zero. */
struct mo_fake_config {
    int gpus; /* -1: none */
    int sms, least, align;
    int level;           /* of the driver, 1000 * major + 10 * minor */
    size_t memory;       /* bytes a GPU */
    int64_t launch_ns;   /* of every kernel */
    int64_t block_ns;    /* of a block; as many run at a time as the context has SMs */
    int64_t copy_ns;     /* of every copy between host and device */
    double bytes_per_ns; /* of such copies; 0 = no limit */
    int green_kernels; /* making a green context takes until so many more kernels have ended, 20 s at most */
};

struct mo_fake_record {
    char what[64]; /* kernel, or "copy in", "copy out", "copy", "fill" */
    int gpu, priority;
    const void *stream;
    uint64_t sms[MO_FAKE_SM_WORDS]; /* none: a copy engine did it */
    int64_t begin, end;             /* CLOCK_MONOTONIC, ns */
};

/* Objects alive and mistakes made. */
struct mo_fake_counts {
    int contexts, green, streams, events, graphs, graph_execs, libraries, memory, host_memory;
    size_t bytes;      /* device memory in use */
    int waiting;       /* kernels that wait for SMs */
    int mistakes;      /* calls that are undefined or forbidden on the real driver */
    char mistake[160]; /* the last one */
    int after_loss;    /* calls made for a GPU after it told that it was lost */
};

struct mo_fake_cuda {
    /* Ends everything, forgets all objects, records and faults, and begins anew.  Nothing of the driver may
     * be in use but what hangs. */
    void (*reset)(const struct mo_fake_config *config);
    /* The `skip`-th next call (0 = the next) of that entry point, and `times` - 1 after it (0 = all), return
     * `result` and do nothing. */
    void (*fail_call)(const char *symbol, int skip, int times, unsigned result);
    /* The `skip`-th next kernel whose name contains `name` ("" = any): result 0 hangs until reset, any other
     * poisons its GPU with that sticky error. */
    void (*fail_kernel)(const char *name, int skip, unsigned result);
    /* The GPU falls off the bus: every call for it returns `result`. */
    void (*lose)(int gpu, unsigned result);
    /* Records so far, oldest first; valid until the next reset. */
    int (*records)(const struct mo_fake_record **out);
    void (*counts)(struct mo_fake_counts *out);
};

const struct mo_fake_cuda *mo_fake_cuda(void);

/* Puts fn into a stream (or into the graph that is captured on it) as a kernel: `args` is copied; its time is
 * launch_ns + sm_ns / SMs of the stream's context.  0 or a CUresult. */
unsigned mo_fake_launch(void *stream, const char *name, void (*fn)(void *args), const void *args,
                        size_t bytes, double sm_ns);

/* What cuLibraryLoadData takes beside the PTX of the plugin's own probe: this line, a line with the number of
 * bytes of a shared object of the host, and that object (image.h).  A kernel NAME there is a function
 *     void NAME(void *const *arguments, const unsigned grid[3], const unsigned block[3])
 * that computes the whole grid, and `const int NAME_arguments` says how many it has, each of 8 bytes. */
#define MO_FAKE_IMAGE "MOIRE-FAKE-IMAGE\n"
#endif
