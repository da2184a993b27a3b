/* SPDX-License-Identifier: Apache-2.0
 * image.h - images of the fake NVRTC (fake.h) as files, for who loads them. */
#ifndef MO_FAKE_IMAGE_H
#define MO_FAKE_IMAGE_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/fake/cuda/fake.h"

enum { MO_FAKE_FILE = 40 };

/* Writes the shared object in an image to a file of a name of its own, which the caller unlinks once it is
 * loaded; false: it is no image. */
static inline bool mo_fake_unpack(const char *image, char file[MO_FAKE_FILE]) {
    size_t n = 0, done = 0;
    int head = 0;
    if (sscanf(image, MO_FAKE_IMAGE "%zu\n%n", &n, &head) != 1 || !head) return false;
    snprintf(file, MO_FAKE_FILE, "/tmp/moire-fake-image-XXXXXX");
    const int fd = mkstemp(file);
    if (fd < 0) return false;
    while (done < n) {
        const ssize_t put = write(fd, image + head + done, n - done);
        if (put <= 0) break;
        done += (size_t)put;
    }
    close(fd);
    if (done < n) unlink(file);
    return done == n;
}
#endif
