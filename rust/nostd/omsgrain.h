// SPDX-License-Identifier: Apache-2.0
// Memory grains without an operating system. For one thread.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct omsgrain_belief {
    const char *subject, *relation, *object; // UTF-8, ended by a zero byte
    const char *namespace_;                  // or NULL
    double confidence;
    int64_t created_at; // ms since 1970
    int32_t cbor;       // 0 for MessagePack
};

// Writes the grain to out. Its length; or 0, and the error's code in error: ERR_TOO_LARGE for more
// than room, or more than the 512 bytes of a lightweight grain (all texts together count as given).
size_t omsgrain_belief(const struct omsgrain_belief *belief, uint8_t *out, size_t room, char error[32]);

// The content address of a blob, ended by a zero byte.
void omsgrain_address(const uint8_t *bytes, size_t len, char out[65]);

// The most bytes of the heap that were in use at once.
size_t omsgrain_memory(void);
