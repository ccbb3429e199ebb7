// The functions of the driver for modules, launches and graphs.
#pragma once
#include <algorithm>

#include "handles.hpp"

namespace {

// The shared memory of the launch that runs, and of its blocks that do not run.
struct Shared {
  struct Kept {
    std::vector<char> dynamic, fixed;
    std::vector<checks::Byte> bytes;
  };
  char* dynamic;
  size_t dynamic_bytes;
  checks::Range fixed;

  char* fixed_start() const { return reinterpret_cast<char*>(fixed.start); }
  char* fixed_end() const { return reinterpret_cast<char*>(fixed.end); }

  void poison() {  // before a block starts, it has any content
    memset(dynamic, memory::POISON, dynamic_bytes);
    memset(fixed_start(), memory::POISON, fixed.end - fixed.start);
  }
  Kept keep() { return {{dynamic, dynamic + dynamic_bytes}, {fixed_start(), fixed_end()}, checks::state.bytes}; }
  void restore(const Kept& kept) {
    std::copy(kept.dynamic.begin(), kept.dynamic.end(), dynamic);
    std::copy(kept.fixed.begin(), kept.fixed.end(), fixed_start());
    checks::state.bytes = kept.bytes;
  }
};

void run_kernel(const Function& function, blocks::Launch launch, const std::vector<uint64_t>& words) {
  launch.module = function.module->contract;
  launch.name = function.name.c_str();
  launch.entry = function.entry;
  launch.words = words.data();
  ++state().counts["kernels"];
  char* dynamic = driver().hooks.dynamic_shared;
  checks::Range fixed = modules::static_shared(*function.module);
  auto watch = [&] {
    if (!launch.module->checked) return;
    auto start = uint64_t(dynamic);
    auto others = function.module->segments;
    others.push_back({uint64_t(&driver().hooks), uint64_t(&driver().hooks + 1)});
    checks::watch({start, start + launch.shared_bytes}, {start, start + MOST_SHARED}, fixed, others);
  };
  std::function<void()> before;
  if (streams::before) {
    before = [&watch, first = std::move(streams::before)] {
      first();
      watch();
    };
    streams::before = nullptr;
  }
  watch();
  Shared shared{dynamic, launch.shared_bytes, fixed};
  blocks::Fault fault = blocks::Grid<Shared>(launch, setting("schedule"), setting("resident"), shared, before).run();
  if (fault.code) poison(fault.code, fault.text);
  memory::check_zones(function.name);
}

}  // namespace

API int cuModuleLoadData(void** out, const void* image) {
  ENTER("cuModuleLoadData", CONTEXT);
  size_t n = modules::image_bytes(image);
  if (!n) return failed(INVALID_IMAGE, "the image was not made by the emulator's compiler");
  auto module = std::make_shared<Module>();
  module->device = current_device;
  module->library = modules::open_image(image, n);
  if (!module->library) return INVALID_IMAGE;
  module->contract = static_cast<const EmulatorModule*>(dlsym(module->library, "emulator_module"));
  if (!module->contract || module->contract->size != sizeof(EmulatorModule))
    return failed(INVALID_IMAGE, "the image was not made by this emulator's compiler");
  int64_t have = setting("compute_capability"), want = module->contract->architecture;
  if (have / 10 != want / 10 || have < want)
    return failed(NO_BINARY_FOR_GPU, "the image is for sm_" + std::to_string(want) + ", the device is sm_" + std::to_string(have));
  modules::look_into(*module);
  EmulatorHooks& hooks = driver().hooks;
  auto aligned = (uint64_t(driver().dynamic_shared.data()) + 1023) / 1024 * 1024 + 16;  // 16 of static shared memory
  hooks = {blocks::warp_hook, blocks::block_hook, blocks::trap_hook, checks::access_hook, blocks::turn_hook, blocks::copies_hook,
           blocks::team_hook, reinterpret_cast<char*>(aligned)};
  *module->contract->hooks = &hooks;
  *out = reinterpret_cast<void*>(keep(driver().modules, module));
  return SUCCESS;
}

API int cuModuleUnload(void* handle) {
  ENTER("cuModuleUnload", CONTEXT);
  FIND(Module, module, modules, handle, "module");
  for (auto it = driver().functions.begin(); it != driver().functions.end();)
    it = it->second->module == module ? driver().functions.erase(it) : std::next(it);
  driver().modules.erase(uint64_t(handle));
  return SUCCESS;
}

API int cuModuleGetFunction(void** out, void* handle, const char* name) {
  ENTER("cuModuleGetFunction", CONTEXT);
  FIND(Module, module, modules, handle, "module");
  void* entry = dlsym(module->library, (std::string("emulator_entry_") + name).c_str());
  void* words = dlsym(module->library, (std::string("emulator_words_") + name).c_str());
  if (!entry || !words) return failed(NOT_FOUND, std::string("the module has no kernel ") + name);
  auto function = std::make_shared<Function>();
  *function = {module, name, reinterpret_cast<blocks::Entry>(entry), *static_cast<int*>(words)};
  *out = reinterpret_cast<void*>(keep(driver().functions, function));
  return SUCCESS;
}

API int cuFuncSetAttribute(void* handle, int attribute, int value) {
  ENTER("cuFuncSetAttribute", CONTEXT);
  FIND(Function, function, functions, handle, "function");
  if (attribute != 8 && attribute != 9) return failed(INVALID_VALUE, "a function has no such attribute to set");
  if (attribute == 8 && (value < 0 || value > MOST_SHARED)) return failed(INVALID_VALUE, "more shared memory than there is");
  if (attribute == 8) function->shared_limit = value;
  return SUCCESS;
}

namespace {

// The parameters of a launch in either form that cuLaunchKernel takes, or a CUresult.
int parameters(const Function& function, void** params, void** extra, std::vector<uint64_t>& words) {
  if (params && extra) return failed(INVALID_VALUE, "parameters are given twice");
  words.resize(size_t(function.words));
  if (function.words == 0) return SUCCESS;
  if (params) {
    for (size_t i = 0; i < words.size(); ++i) memcpy(&words[i], params[i], 8);
    return SUCCESS;
  }
  const void* buffer = nullptr;
  size_t n = 0;
  for (; extra && *extra; extra += 2) {
    if (uint64_t(*extra) == 1) buffer = extra[1];
    else if (uint64_t(*extra) == 2) n = *static_cast<size_t*>(extra[1]);
    else return failed(INVALID_VALUE, "an unknown extra option of a launch");
  }
  if (!buffer || n != words.size() * 8)
    return failed(INVALID_VALUE, function.name + " takes " + std::to_string(words.size() * 8) + " bytes of parameters, not " + std::to_string(n));
  memcpy(words.data(), buffer, n);
  return SUCCESS;
}

int check_launch(const Function& function, const blocks::Launch& launch) {
  const EmulatorDim &grid = launch.grid, &block = launch.block;
  if (!grid.x || !grid.y || !grid.z || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
    return failed(INVALID_VALUE, function.name + ": a grid has 1 to 2^31-1 by 65535 by 65535 blocks");
  if (!block.x || !block.y || !block.z || block.x > 1024 || block.y > 1024 || block.z > 64 ||
      uint64_t(block.x) * block.y * block.z > 1024)
    return failed(INVALID_VALUE, function.name + ": a block has 1 to 1024 threads");
  if (int64_t(launch.shared_bytes) > function.shared_limit)
    return failed(INVALID_VALUE, function.name + ": more dynamic shared memory than allowed");
  return SUCCESS;
}

}  // namespace

namespace {

// CUlaunchConfig, and a CUlaunchAttribute
struct Attribute {
  int id, padding;
  int value[16];
};
struct Config {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void* stream;
  const Attribute* attributes;
  unsigned n_attributes;
};
constexpr int PROGRAMMATIC_SERIALIZATION = 6;

// The work of a launch, or a CUresult: its sizes and its parameters are checked now.
int kernel_action(void* handle, const Config& config, bool early, void** params, void** extra, streams::Action& act) {
  FIND(Function, function, functions, handle, "function");
  blocks::Launch launch = {nullptr, nullptr, nullptr, nullptr, {config.grid_x, config.grid_y, config.grid_z},
                           {config.block_x, config.block_y, config.block_z}, config.shared_bytes, early};
  if (int error = check_launch(*function, launch)) return error;
  std::vector<uint64_t> words;
  if (int error = parameters(*function, params, extra, words)) return error;
  int planned = int(setting("launch_error"));
  state().settings["launch_error"] = 0;
  act = [=] {
    if (planned) poison(planned, function->name + ": this launch was to fail");
    else run_kernel(*function, launch, words);
  };
  return SUCCESS;
}

int launch_kernel(void* handle, const Config& config, bool early, void** params, void** extra) {
  FIND(Stream, stream, streams, config.stream, "stream");
  streams::Action act;
  if (int error = kernel_action(handle, config, early, params, extra, act)) return error;
  if (stream->capture && gpu::is_due("fail_captured_launch"))
    return streams::refuse_in_capture(*stream, "a launch that was to fail");
  if (stream->capture && early && setting("driver_version") < 12030)
    return streams::refuse_in_capture(*stream, "an early launch by an old driver");
  return streams::enqueue(*stream, {act, nullptr, nullptr, early ? streams::EARLY_KERNEL : streams::KERNEL});
}

}  // namespace

API int cuLaunchKernelEx(const Config* config, void* handle, void** params, void** extra) {
  ENTER("cuLaunchKernelEx", CONTEXT);
  bool early = false;
  for (unsigned i = 0; i < config->n_attributes; ++i) {
    const Attribute& attribute = config->attributes[i];
    if (attribute.id != PROGRAMMATIC_SERIALIZATION) return failed(INVALID_VALUE, "an unknown attribute of a launch");
    early = attribute.value[0];
  }
  if (early && setting("compute_capability") < 90) return failed(INVALID_VALUE, "the device starts no kernel early");
  return launch_kernel(handle, *config, early, params, extra);
}

API int cuLaunchKernel(void* handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                       unsigned block_z, unsigned shared_bytes, void* stream_handle, void** params, void** extra) {
  ENTER("cuLaunchKernel", CONTEXT);
  Config config = {grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream_handle, nullptr, 0};
  return launch_kernel(handle, config, false, params, extra);
}

// ---- graphs ----

API int cuStreamBeginCapture_v2(void* handle, int mode) {
  ENTER("cuStreamBeginCapture", CONTEXT);
  FIND(Stream, stream, streams, handle, "stream");
  if (mode < 0 || mode > 2) return failed(INVALID_VALUE, "there is no such capture mode");
  if (stream->capture) return failed(INVALID_VALUE, "the stream is captured already");
  if (gpu::is_due("fail_capture")) return failed(INVALID_VALUE, "this capture was to fail");
  stream->last = streams::OTHER;
  stream->capture = std::make_shared<streams::Capture>();
  stream->capture->origin = stream->handle;
  stream->capture->mode = mode;
  return SUCCESS;
}

API int cuStreamEndCapture(void* handle, void** out) {
  ENTER("cuStreamEndCapture", CONTEXT);
  FIND(Stream, stream, streams, handle, "stream");
  auto capture = stream->capture;
  stream->last = streams::OTHER;
  *out = nullptr;
  if (!capture || capture->origin != stream->handle) return failed(INVALID_VALUE, "no capture began on this stream");
  for (auto& [other_handle, other] : driver().streams)
    if (other->capture == capture) other->capture = nullptr;
  if (capture->invalid) return CAPTURE_INVALIDATED;
  if (!streams::joined(*capture)) return failed(CAPTURE_UNJOINED, "a stream of the capture was not joined to its origin");
  auto graph = std::make_shared<Graph>();
  graph->nodes = std::make_shared<std::vector<streams::Captured>>(std::move(capture->actions));
  *out = reinterpret_cast<void*>(keep(driver().graphs, graph));
  return SUCCESS;
}

// Of a capture over several streams the emulated driver does not say which nodes have no successor.
API int cuStreamGetCaptureInfo_v2(void* handle, int* status, uint64_t* id, void** graph, void*** front, size_t* n) {
  ENTER("cuStreamGetCaptureInfo", CONTEXT);
  FIND(Stream, stream, streams, handle, "stream");
  auto capture = stream->capture;
  *status = !capture ? 0 : capture->invalid ? 2 : 1;
  if (*status != 1) return SUCCESS;
  if (capture->last.size() > 1) return failed(INVALID_VALUE, "the emulated driver knows the nodes of one stream only");
  *id = 1;
  *graph = nullptr;
  stream->front.clear();
  if (!capture->actions.empty()) stream->front.push_back(reinterpret_cast<void*>(capture->actions.back().node));
  *front = stream->front.data();
  *n = stream->front.size();
  return SUCCESS;
}

API int cuGraphInstantiateWithFlags(void** out, void* handle, unsigned long long) {
  ENTER("cuGraphInstantiateWithFlags", CONTEXT);
  FIND(Graph, graph, graphs, handle, "graph");
  *out = reinterpret_cast<void*>(keep(driver().graph_execs, std::make_shared<Graph>(*graph)));
  return SUCCESS;
}

API int cuGraphLaunch(void* handle, void* stream_handle) {
  ENTER("cuGraphLaunch", CONTEXT);
  FIND(Graph, graph, graph_execs, handle, "executable graph");
  FIND(Stream, stream, streams, stream_handle, "stream");
  return streams::enqueue(*stream, [nodes = graph->nodes] {
    auto& all = *nodes;
    for (size_t i = 0; i < all.size() && !state().poison; ++i) {
      bool is_pair = i + 1 < all.size() && streams::starts_early(all[i].kind, all[i + 1].kind);
      if (is_pair) streams::run_kernels(all[i].act, all[i + 1].act), ++i;
      else all[i].act();
    }
  });
}

namespace {

bool has_node(const Graph& graph, uint64_t node) {
  return std::any_of(graph.nodes->begin(), graph.nodes->end(), [=](auto& each) { return each.node == node; });
}

// CUDA_KERNEL_NODE_PARAMS_v2
struct KernelNode {
  void* function;
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  void **params, **extra;
  void *kernel, *context;
};

}  // namespace

// Launches made before keep their nodes.
API int cuGraphExecKernelNodeSetParams_v2(void* handle, void* node_handle, const KernelNode* to) {
  ENTER("cuGraphExecKernelNodeSetParams", CONTEXT);
  FIND(Graph, graph, graph_execs, handle, "executable graph");
  if (gpu::is_due("fail_update")) return failed(INVALID_VALUE, "this change of a node was to fail");
  uint64_t node = uint64_t(node_handle);
  if (!has_node(*graph, node)) return failed(INVALID_VALUE, "the executable graph has no such node");
  bool is_held = false;
  for (auto& [key, source] : driver().graphs) is_held = is_held || has_node(*source, node);
  if (!is_held) return failed(INVALID_VALUE, "the graph of the node was destroyed");
  FIND(Function, function, functions, to->function, "function");
  Config config = {to->grid_x, to->grid_y, to->grid_z, to->block_x, to->block_y, to->block_z, to->shared_bytes, nullptr, nullptr, 0};
  auto nodes = std::make_shared<std::vector<streams::Captured>>(*graph->nodes);
  for (auto& each : *nodes) {
    if (each.node != node) continue;
    if (each.kind == streams::OTHER) return failed(INVALID_VALUE, "this is no node of a kernel");
    if (each.device != function->module->device) return failed(INVALID_VALUE, "a node's function stays in its context");
    bool early = each.kind == streams::EARLY_KERNEL;
    if (int error = kernel_action(to->function, config, early, to->params, to->extra, each.act)) return error;
  }
  graph->nodes = nodes;
  return SUCCESS;
}

API int cuGraphExecDestroy(void* handle) {
  ENTER("cuGraphExecDestroy", CONTEXT);
  return driver().graph_execs.erase(uint64_t(handle)) ? SUCCESS : bad_handle("executable graph");
}

API int cuGraphDestroy(void* handle) {
  ENTER("cuGraphDestroy", CONTEXT);
  return driver().graphs.erase(uint64_t(handle)) ? SUCCESS : bad_handle("graph");
}
