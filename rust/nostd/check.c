// SPDX-License-Identifier: Apache-2.0
// Writes the belief of each line and compares. A line has, with tabs between: cbor, subject,
// relation, object, namespace or "-", confidence, created_at, and what must come of it: the blob in
// hex and its address, or an error's code and "-".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "omsgrain.h"

// Rust's own code for this host was built to unwind and names this; nothing here does unwind.
void rust_eh_personality(void) {}

int main(void) {
    static char line[1 << 16];
    int count = 0, wrong = 0;
    while (fgets(line, sizeof line, stdin)) {
        char *at[9], *rest = line;
        line[strcspn(line, "\n")] = 0;
        for (int i = 0; i < 9; i++) {
            at[i] = rest;
            rest += strcspn(rest, "\t");
            if (*rest) *rest++ = 0;
        }
        struct omsgrain_belief belief = {
            at[1], at[2], at[3], strcmp(at[4], "-") ? at[4] : NULL, atof(at[5]), atoll(at[6]), atoi(at[0])};
        uint8_t blob[512];
        char error[32] = "", hex[1025] = "", address[65] = "-";
        size_t len = omsgrain_belief(&belief, blob, sizeof blob, error);
        for (size_t i = 0; i < len; i++) sprintf(hex + 2 * i, "%02x", blob[i]);
        if (len) omsgrain_address(blob, len, address);
        if (strcmp(len ? hex : error, at[7]) || strcmp(address, at[8])) {
            printf("wrong: %s %s instead of %s %s\n", len ? hex : error, address, at[7], at[8]);
            wrong++;
        }
        count++;
    }
    printf("without std: %d grains, %d wrong, at most %zu bytes of heap\n", count, wrong, omsgrain_memory());
    return wrong || !count;
}
