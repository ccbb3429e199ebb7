// Images of modules: libraries that the emulator's compiler made (see contract.hpp), loaded from memory.
#pragma once
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu.hpp"
#include "checks.hpp"
#include "launch.hpp"

namespace modules {

struct Module {
  int device = 0;  // whose context it is in
  void* library = nullptr;
  const EmulatorModule* contract = nullptr;
  size_t static_bytes = 0;  // of shared memory
  std::vector<checks::Range> segments;
  ~Module() {
    if (library) dlclose(library);
  }
};

struct Function {
  std::shared_ptr<Module> module;
  std::string name;
  blocks::Entry entry;
  int words;
  int64_t shared_limit = 48 << 10;
};

// The bytes of an ELF library of this host, or 0 for anything else: its section headers come last.
inline size_t image_bytes(const void* image) {
  const auto* header = static_cast<const ElfW(Ehdr)*>(image);
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_type != ET_DYN) return 0;
#if defined(__x86_64__)
  if (header->e_machine != EM_X86_64) return 0;
#else
  if (header->e_machine != EM_AARCH64) return 0;
#endif
  return header->e_shoff + size_t(header->e_shnum) * header->e_shentsize;
}

inline void* open_image(const void* image, size_t n) {
  char path[] = "/tmp/emulated-module-XXXXXX";
  int file = mkstemp(path);
  if (file < 0) return nullptr;
  size_t written = 0;
  while (written < n) {
    ssize_t more = write(file, static_cast<const char*>(image) + written, n - written);
    if (more <= 0) break;
    written += size_t(more);
  }
  close(file);
  // texts name no library, whose symbols a linker would read for each text: they find those that all libraries find
  [[maybe_unused]] static void* const mathematics = dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);
  void* library = written == n ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!library) gpu::state().text = written == n ? dlerror() : "the module cannot be written to /tmp";
  unlink(path);
  return library;
}

// Finds where the library's variables are, and how many bytes its threads have.
inline void look_into(Module& module) {
  struct link_map* map = nullptr;
  dlinfo(module.library, RTLD_DI_LINKMAP, &map);
  auto search = std::make_pair(map->l_addr, &module);
  dl_iterate_phdr(
      [](struct dl_phdr_info* info, size_t, void* data) {
        auto [base, module] = *static_cast<std::pair<ElfW(Addr), Module*>*>(data);
        if (info->dlpi_addr != base) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          auto& part = info->dlpi_phdr[i];
          if (part.p_type == PT_TLS) module->static_bytes = part.p_memsz;
          if (part.p_type == PT_LOAD) module->segments.push_back({base + part.p_vaddr, base + part.p_vaddr + part.p_memsz});
        }
        return 1;
      },
      &search);
}

// The static shared memory of kernels that this host thread runs.
inline checks::Range static_shared(Module& module) {
  if (!module.static_bytes) return {};
  module.contract->static_shared();
  void* start = nullptr;
  if (dlinfo(module.library, RTLD_DI_TLS_DATA, &start) != 0 || !start) return {};
  return {uint64_t(start), uint64_t(start) + module.static_bytes};
}

}  // namespace modules
