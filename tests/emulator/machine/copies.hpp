// Copies to shared memory that a thread begins and waits for later (cp.async): a copy runs as late as it may, and the place is
// NaN until then, so that a wait that is missing shows.
#pragma once
#include "checks.hpp"

namespace blocks {

inline void see(const void* address, unsigned long n, int kind) {
  if (running.launch->module->checked) checks::access_hook(address, n, kind);
}

inline void run(const Copy& copy) {
  see(copy.to, 16, ACCESS_WRITE);
  memset(copy.to, 0, 16);
  memcpy(copy.to, copy.from, size_t(copy.bytes));
}

inline void copies_hook(int what, void* to, const void* from, int n) {
  Thread& me = running.threads[running.current];
  if (me.copies.empty()) me.copies.resize(1);
  if (what == COPY_BEGIN) {
    if (uint64_t(to) % 16 || uint64_t(from) % 16) stop(716, "a copy of 16 bytes from or to an address that is not aligned");
    see(to, 16, ACCESS_WRITE);
    if (n) see(from, size_t(n), ACCESS_READ);
    memset(to, 0xff, 16);
    me.copies.back().push_back({to, from, n});
  } else if (what == COPY_COMMIT) {
    me.copies.emplace_back();
  } else {
    while (me.copies.size() > size_t(n) + 1) {
      for (const Copy& copy : me.copies.front()) run(copy);
      me.has_hidden_copies |= !me.copies.front().empty();
      me.copies.erase(me.copies.begin());
    }
  }
}

}  // namespace blocks
