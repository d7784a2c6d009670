// SPDX-License-Identifier: Apache-2.0
//! An allocator over one buffer of fixed size, for one thread. The last allocation can be freed or
//! grow; once nothing is in use, the whole buffer is free again. A grain never needs more.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::{Cell, UnsafeCell};
use core::ptr::null_mut;

const BYTES: usize = 16 << 10;

#[repr(align(16))]
struct Buffer(UnsafeCell<[u8; BYTES]>);

pub struct Heap {
    buffer: Buffer,
    used: Cell<usize>,
    held: Cell<usize>,
    most: Cell<usize>,
}

#[global_allocator]
pub static HEAP: Heap = Heap {
    buffer: Buffer(UnsafeCell::new([0; BYTES])),
    used: Cell::new(0),
    held: Cell::new(0),
    most: Cell::new(0),
};

// SAFETY: there is one thread, and no interrupt allocates.
unsafe impl Sync for Heap {}

impl Heap {
    /// The most bytes that were in use at once.
    pub fn most(&self) -> usize {
        self.most.get()
    }

    fn use_up_to(&self, end: usize) {
        self.used.set(end);
        self.most.set(self.most.get().max(end));
    }

    fn place(&self, at: *mut u8) -> usize {
        at as usize - self.buffer.0.get() as usize
    }
}

// SAFETY: every allocation is inside the buffer, aligned, and unique. `used` falls below a place
// only when its owner frees it, or when nothing is in use.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let start = self.used.get().next_multiple_of(layout.align());
        let Some(end) = start.checked_add(layout.size()).filter(|end| *end <= BYTES && layout.align() <= 16)
        else {
            return null_mut();
        };
        self.use_up_to(end);
        self.held.set(self.held.get() + 1);
        // SAFETY: `start` is in the buffer.
        unsafe { self.buffer.0.get().cast::<u8>().add(start) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        self.held.set(self.held.get() - 1);
        let start = self.place(at);
        if self.held.get() == 0 {
            self.used.set(0);
        } else if start + layout.size() == self.used.get() {
            self.used.set(start);
        }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let start = self.place(at);
        if start + layout.size() == self.used.get() && start + size <= BYTES {
            self.use_up_to(start + size);
            return at;
        }
        // SAFETY: the caller's promises are those of the calls below.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(at, layout.size().min(size));
                self.dealloc(at, layout);
            }
            new
        }
    }
}
