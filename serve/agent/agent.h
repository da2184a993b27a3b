/* SPDX-License-Identifier: Apache-2.0
 * agent.h - the door for HAProxy's agent checks (`--agent-port`): a client connects, may send a model's name
 * and the end of the line, and gets one line of room.h; then the connection ends.
 *
 * One thread has at most MS_AGENT_CLIENTS clients.  Each has MS_AGENT_WAIT_MS to send its line; one that
 * sends nothing is told of the server as a whole.  With as many clients as there may be, others wait to be
 * let in, so nobody who is slow holds up others for longer than that. */
#ifndef MS_AGENT_H
#define MS_AGENT_H
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "serve/repository/repository.h"

enum { MS_AGENT_CLIENTS = 64, MS_AGENT_LINE = 256, MS_AGENT_WAIT_MS = 200 };

struct ms_agent_client {
    int fd;
    int64_t until_ms; /* monotonic */
    size_t n;
    char line[MS_AGENT_LINE];
};

struct ms_agent {
    struct ms_repository *repository;
    int socket, wake[2]; /* wake: closed to end the thread */
    pthread_t thread;
    bool runs;
    struct ms_agent_client client[MS_AGENT_CLIENTS];
    int n;
};

/* Takes the socket, which listens.  Returns: MOIRE_OK, and it is to be closed; MOIRE_EIO. */
int ms_agent_open(struct ms_agent *agent, struct ms_repository *repository, int socket, moire_error *err);
/* Fine if it was never opened (all zero). */
void ms_agent_close(struct ms_agent *agent);
#endif
