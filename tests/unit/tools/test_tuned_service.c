/* SPDX-License-Identifier: Apache-2.0
 * test_tuned_service.c - tools/tuned-service with a shell script in the place of moire: what failed is said
 * and not taken for done, so that the next run does it anew. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "tests/unit/base/put_file.h"

struct place {
    char folder[64];
};

static bool there(const struct place *p, const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/out/%s", p->folder, name);
    return access(path, F_OK) == 0;
}

/* Fails where the folder has a file `broken`: a comparison is left out, and a fit ends with an error. */
static const char moire[] =
    "#!/bin/sh\n"
    "here=$(dirname \"$0\") out=\n"
    "verb=\"$1 $2\"\n"
    "while [ $# -gt 0 ]; do case $1 in -o | --output) out=$2 ;; esac; shift; done\n"
    "case $verb in\n"
    "'proxy list') echo 'papi yes' ;;\n"
    "'proxy fit') echo fitted; echo x >\"$out\"; [ ! -e \"$here/broken\" ] ;;\n"
    "'proxy measure') echo x >\"$out\" ;;\n"
    "'bench serve')\n"
    "    echo '{}' >\"$out\"\n"
    "    [ -e \"$here/broken\" ] || { echo 'moire beside a neighbour (1)'; exit 0; }\n"
    "    echo 'left out: comparison beside a neighbour: no thread' ;;\n"
    "*) echo 'versions a layer: 1' ;;\n"
    "esac\n";

static void set_up(struct place *p) {
    strcpy(p->folder, "/tmp/moire-tuned-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    put_file(p->folder, "moire", moire, 0755);
    put_file(p->folder, "s.json", "{\"tenants\": [{\"model\": \"a\"}]}", 0644);
}

static void tear_down(const struct place *p) {
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", p->folder);
    assert_int_equal(system(command), 0);
}

/* Whether it succeeds; what it says is in *said. */
static bool run(const struct place *p, char said[4096]) {
    char command[256];
    snprintf(command, sizeof command, "B=%s tools/tuned-service -s %s/s.json -p moire %s/out 2>&1", p->folder,
             p->folder, p->folder);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    said[fread(said, 1, 4095, f)] = 0;
    return pclose(f) == 0;
}

static void what_failed_is_done_anew(void **state) {
    (void)state;
    struct place p;
    char said[4096], broken[128];
    set_up(&p);
    snprintf(broken, sizeof broken, "%s/broken", p.folder);
    put_file(p.folder, "broken", "", 0644);
    assert_false(run(&p, said)); /* the fit */
    assert_true(there(&p, "samples.csv") && !there(&p, "proxy.csv"));
    put_file(p.folder, "out/proxy.csv", "x", 0644);
    assert_false(run(&p, said)); /* the comparison */
    assert_non_null(strstr(said, "left out: comparison beside a neighbour: no thread"));
    assert_false(there(&p, "moire.json") || there(&p, "first.json"));
    assert_int_equal(unlink(broken), 0);
    if (!run(&p, said)) fail_msg("%s", said);
    assert_non_null(strstr(said, "moire beside a neighbour (1)"));
    assert_true(there(&p, "moire.json") && there(&p, "moire-proxy.json"));
    tear_down(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_failed_is_done_anew)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
