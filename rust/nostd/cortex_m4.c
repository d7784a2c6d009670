// SPDX-License-Identifier: Apache-2.0
// Starts a program on the emulated board mps2-an386 (Cortex-M4): the vector table and the floating-point
// unit. newlib does the rest, with the files of the host.
#include <stdint.h>

extern void _start(void);
void reset(void);

__attribute__((section(".vectors"))) const uintptr_t vectors[] = {0x20400000, (uintptr_t)reset};

void reset(void) {
    *(volatile uint32_t *)0xE000ED88 |= 0xFU << 20; // CPACR: the coprocessors 10 and 11
    __asm volatile("dsb\n\tisb");
    _start();
}
