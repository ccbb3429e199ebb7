// The functions of cuDNN that the machine calls, under their own names: they give a status of cuDNN.
#pragma once
#include "handles.hpp"

namespace {

int refused(int status, const char* why) { return failed(status, why); }

shared_ptr<cudnn::Descriptor> backend(void* handle) { return find(driver().backend, handle); }

int dnn_check(const cudnn::Descriptor& d) {
  using namespace cudnn;
  if (d.kind == ENGINE || d.kind == CONFIGURATION) return d.engine < 0 ? BAD_PARAM : OK;
  for (auto& [attribute, known] : settable().at(d.kind))
    if (!d.values.count(kept_as(d.kind, attribute))) return refused(BAD_PARAM, "cudnnBackendFinalize: an attribute is missing");
  switch (d.kind) {
    case TENSOR: return check_tensor(d);
    case CONVOLUTION: return check_convolution(d);
    case FORWARD:
    case BACKWARD: return check_forward(d);
    case HEURISTICS: return d.get(HEUR_MODE) == MODE_A || d.get(HEUR_MODE) == MODE_FALLBACK ? OK : BAD_PARAM;
    case PLAN: return engines()[size_t(d.part(PLAN_CONFIG).engine)].is_refused ? NOT_SUPPORTED : OK;
    case PACK: return d.count(PACK_NUMBERS) == d.count(PACK_ADDRESSES) ? OK : BAD_PARAM;
    default: return OK;
  }
}

}  // namespace

API size_t cudnnGetVersion() {
  Call call("cudnnGetVersion", NOTHING);
  return 92801;
}

API int cudnnCreate(void** out) {
  Call call("cudnnCreate", CONTEXT);
  if (call.error) return cudnn::NOT_INITIALIZED;
  *out = reinterpret_cast<void*>(keep(driver().dnn, std::make_shared<cudnn::Handle>()));
  return cudnn::OK;
}

API int cudnnDestroy(void* handle) {
  Call call("cudnnDestroy", INITIALIZED);
  return driver().dnn.erase(uint64_t(handle)) ? cudnn::OK : cudnn::NOT_INITIALIZED;
}

API int cudnnSetStream(void* handle, void* stream) {
  Call call("cudnnSetStream", CONTEXT);
  auto dnn = find(driver().dnn, handle);
  if (call.error || !dnn || !find(driver().streams, stream)) return cudnn::BAD_PARAM;
  dnn->stream = uint64_t(stream);
  return cudnn::OK;
}

API int cudnnBackendCreateDescriptor(int kind, void** out) {
  Call call("cudnnBackendCreateDescriptor", NOTHING);
  *out = nullptr;
  if (!cudnn::settable().count(kind)) return cudnn::NO_HOST_MEMORY;
  auto made = std::make_shared<cudnn::Descriptor>();
  made->kind = kind;
  *out = reinterpret_cast<void*>(keep(driver().backend, made));
  return cudnn::OK;
}

API int cudnnBackendDestroyDescriptor(void* handle) {
  Call call("cudnnBackendDestroyDescriptor", INITIALIZED);  // a plan's code is the driver's
  return driver().backend.erase(uint64_t(handle)) ? cudnn::OK : cudnn::BAD_PARAM;
}

API int cudnnBackendSetAttribute(void* handle, int attribute, int type, int64_t n, const void* from) {
  Call call("cudnnBackendSetAttribute", NOTHING);
  using namespace cudnn;
  auto d = backend(handle);
  if (!d || !from) return NULL_POINTER;
  if (d->is_final) return refused(BAD_PARAM, "cudnnBackendSetAttribute: the descriptor is finalized");
  auto& known = settable().at(d->kind);
  auto found = known.find(attribute);
  if (found == known.end()) return refused(BAD_PARAM, "cudnnBackendSetAttribute: the descriptor has no such attribute");
  auto& types = found->second.types;
  if (std::find(types.begin(), types.end(), type) == types.end()) return ATTRIBUTE_TYPE;
  if (n < 1 || size_t(n) > found->second.most) return refused(BAD_PARAM, "cudnnBackendSetAttribute: the number of elements");
  std::vector<uint64_t> values(size_t(n), 0);
  for (size_t i = 0; i < size_t(n); ++i) memcpy(&values[i], static_cast<const char*>(from) + i * bytes_of(type), bytes_of(type));
  if (type == DESCRIPTOR) {
    auto part = backend(reinterpret_cast<void*>(values[0]));
    if (!part || !may_be(kept_as(d->kind, attribute), part->kind)) return BAD_PARAM;
    if (!part->is_final) return NOT_FINALIZED;
    d->parts[kept_as(d->kind, attribute)] = part;
  }
  if (type == HANDLE && !find(driver().dnn, reinterpret_cast<void*>(values[0]))) return BAD_PARAM;
  d->values[kept_as(d->kind, attribute)] = values;
  d->types[kept_as(d->kind, attribute)] = type;
  return OK;
}

API int cudnnBackendFinalize(void* handle) {
  Call call("cudnnBackendFinalize", NOTHING);
  auto d = backend(handle);
  if (!d) return cudnn::NULL_POINTER;
  if (d->is_final) return cudnn::BAD_PARAM;
  if (int status = dnn_check(*d)) return status;
  if (d->kind == cudnn::PLAN) {  // it loads code
    auto dnn = find(driver().dnn, reinterpret_cast<void*>(d->get(cudnn::PLAN_HANDLE)));
    auto stream = dnn ? find(driver().streams, reinterpret_cast<void*>(dnn->stream)) : nullptr;
    if (!stream) return refused(cudnn::NOT_INITIALIZED, "cudnnBackendFinalize: the handle has no stream");
    if (streams::refuse_in_capture(*stream, "a plan is made") || unsafe("a plan is made")) return cudnn::EXECUTION_FAILED;
  }
  d->is_final = true;
  return cudnn::OK;
}

API int cudnnBackendGetAttribute(void* handle, int attribute, int type, int64_t most, int64_t* count, void* to) {
  Call call("cudnnBackendGetAttribute", NOTHING);
  using namespace cudnn;
  auto d = backend(handle);
  if (!d || !count || (most > 0 && !to)) return NULL_POINTER;
  if (!d->is_final) return refused(NOT_FINALIZED, "cudnnBackendGetAttribute: the descriptor is not finalized");
  auto out = static_cast<char*>(to);
  if (d->kind == HEURISTICS && attribute == HEUR_RESULTS) {
    if (type != DESCRIPTOR) return ATTRIBUTE_TYPE;
    auto all = found(d->part(HEUR_GRAPH).part(GRAPH_OPS), d->get(HEUR_MODE));
    *count = most ? std::min(most, int64_t(all.size())) : int64_t(all.size());
    for (int64_t i = 0; i < *count && most; ++i) {
      auto into = backend(static_cast<void**>(to)[i]);
      if (!into || into->kind != CONFIGURATION) return BAD_PARAM;
      into->engine = all[size_t(i)];
      into->parts[HEUR_GRAPH] = d->parts.at(HEUR_GRAPH);
      into->is_final = true;
    }
    return OK;
  }
  if (d->kind == CONFIGURATION && attribute == CONFIG_ENGINE) {
    if (type != DESCRIPTOR) return ATTRIBUTE_TYPE;
    auto into = most > 0 ? backend(*static_cast<void**>(to)) : nullptr;
    if (!into || into->kind != ENGINE) return BAD_PARAM;
    into->engine = d->engine;
    into->is_final = true;
    *count = 1;
    return OK;
  }
  if (d->kind == ENGINE && (attribute == NUMERICAL_NOTES || attribute == BEHAVIOR_NOTES)) {
    if (type != (attribute == NUMERICAL_NOTES ? NUMERICAL : BEHAVIOR)) return ATTRIBUTE_TYPE;
    auto& engine = engines()[size_t(d->engine)];
    auto& notes = attribute == NUMERICAL_NOTES ? engine.numerical : engine.behavior;
    *count = std::min(most, int64_t(notes.size()));
    for (int64_t i = 0; i < *count; ++i) memcpy(out + 4 * i, &notes[size_t(i)], 4);
    return OK;
  }
  if (d->kind == PLAN && attribute == PLAN_BYTES) {
    if (type != INT64) return ATTRIBUTE_TYPE;
    auto n = int64_t(engines()[size_t(d->part(PLAN_CONFIG).engine)].workspace);
    if (most > 0) memcpy(to, &n, 8);
    *count = 1;
    return OK;
  }
  return refused(BAD_PARAM, "cudnnBackendGetAttribute: the descriptor has no such attribute");
}

API int cudnnBackendExecute(void* handle, void* plan_handle, void* pack_handle) {
  Call call("cudnnBackendExecute", CONTEXT);
  using namespace cudnn;
  if (call.error) return EXECUTION_FAILED;
  auto dnn = find(driver().dnn, handle);
  auto plan = backend(plan_handle), pack = backend(pack_handle);
  if (!dnn || !plan || !pack || plan->kind != PLAN || pack->kind != PACK) return refused(BAD_PARAM, "cudnnBackendExecute: a descriptor");
  auto stream = find(driver().streams, reinterpret_cast<void*>(dnn->stream));
  if (!stream || !plan->is_final || !pack->is_final) return NOT_FINALIZED;
  const Descriptor& configuration = plan->part(PLAN_CONFIG);
  auto& engine = engines()[size_t(configuration.engine)];
  Run run = {configuration.part(HEUR_GRAPH).parts.at(GRAPH_OPS), 0, 0, 0, engine.is_inexact};
  for (auto [attribute, address] : {std::pair(X, &run.x), std::pair(W, &run.w), std::pair(Y, &run.y)}) {
    const Descriptor& tensor = run.forward->part(attribute);
    for (size_t i = 0; i < pack->count(PACK_NUMBERS); ++i)
      if (pack->get(PACK_NUMBERS, i) == tensor.get(NUMBER)) *address = uint64_t(pack->get(PACK_ADDRESSES, i));
    if (!*address || *address % uint64_t(tensor.get(ALIGNMENT)))
      return refused(BAD_PARAM, "cudnnBackendExecute: a tensor has no address, or is aligned less than the plan needs");
  }
  if (configuration.engine == WITH_TENSOR_CORES && run.forward->part(X).get(ELEMENT) == SINGLE) run.tf32 = true;
  auto workspace = uint64_t(pack->get(PACK_WORKSPACE));
  if (engine.workspace && (!memory::is_known(workspace, engine.workspace) || workspace % 256))
    return refused(BAD_PARAM, "cudnnBackendExecute: the workspace is too small, or not memory of the device");
  uint64_t used = engine.workspace;
  auto act = [=] {
    if (used) memset(reinterpret_cast<void*>(workspace), memory::POISON, used);
    execute(run);
  };
  return streams::enqueue(*stream, act) ? EXECUTION_FAILED : OK;
}
