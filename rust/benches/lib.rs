// SPDX-License-Identifier: Apache-2.0
//! Nothing: the benches are beside it.
