/* SPDX-License-Identifier: Apache-2.0
 * put_file.h - for tests: a file with a text in a folder. */
#ifndef MO_TESTS_PUT_FILE_H
#define MO_TESTS_PUT_FILE_H

/* Fails the test when it cannot be written.  mode: its permissions, as of chmod(). */
void put_file(const char *folder, const char *name, const char *text, unsigned mode);
#endif
