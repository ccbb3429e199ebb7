// The functions of cuBLASLt that the machine calls, under their own names: they give a status of cuBLAS.
#pragma once
#include "handles.hpp"

namespace {

template <class T>
int destroy(std::map<uint64_t, shared_ptr<T>>& all, void* handle) {
  return all.erase(uint64_t(handle)) ? cublas::OK : cublas::INVALID_VALUE;
}

}  // namespace

API int cublasLtCreate(void** out) {
  Call call("cublasLtCreate", CONTEXT);
  if (call.error) return cublas::NOT_INITIALIZED;
  *out = reinterpret_cast<void*>(keep(driver().blas_lt, std::make_shared<cublas_lt::Handle>()));
  return cublas::OK;
}

API int cublasLtDestroy(void* handle) {
  Call call("cublasLtDestroy", NOTHING);
  return driver().blas_lt.erase(uint64_t(handle)) ? cublas::OK : cublas::NOT_INITIALIZED;
}

API int cublasLtMatmulDescCreate(void** out, int compute, int scale) {
  Call call("cublasLtMatmulDescCreate", NOTHING);
  auto made = std::make_shared<cublas_lt::Description>();
  made->compute = compute;
  made->scale = scale;
  *out = reinterpret_cast<void*>(keep(driver().descriptions, made));
  return cublas::OK;
}

API int cublasLtMatmulDescDestroy(void* handle) {
  Call call("cublasLtMatmulDescDestroy", NOTHING);
  return destroy(driver().descriptions, handle);
}

API int cublasLtMatmulDescSetAttribute(void* handle, int attribute, const void* from, size_t n) {
  Call call("cublasLtMatmulDescSetAttribute", NOTHING);
  using namespace cublas_lt;
  auto found = find(driver().descriptions, handle);
  if (!found) return cublas::INVALID_VALUE;
  return found->set({{DESC_TRANS_A, 4}, {DESC_TRANS_B, 4}, {DESC_EPILOGUE, 4}, {DESC_BIAS_POINTER, 8}}, attribute, from, n);
}

API int cublasLtMatrixLayoutCreate(void** out, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  Call call("cublasLtMatrixLayoutCreate", NOTHING);
  auto made = std::make_shared<cublas_lt::Layout>();
  made->type = type;
  made->rows = rows;
  made->columns = columns;
  made->leading = leading;
  *out = reinterpret_cast<void*>(keep(driver().layouts, made));
  return cublas::OK;
}

API int cublasLtMatrixLayoutDestroy(void* handle) {
  Call call("cublasLtMatrixLayoutDestroy", NOTHING);
  return destroy(driver().layouts, handle);
}

API int cublasLtMatrixLayoutSetAttribute(void* handle, int attribute, const void* from, size_t n) {
  Call call("cublasLtMatrixLayoutSetAttribute", NOTHING);
  using namespace cublas_lt;
  auto found = find(driver().layouts, handle);
  return found ? found->set({{LAYOUT_BATCHES, 4}, {LAYOUT_STRIDE, 8}}, attribute, from, n) : cublas::INVALID_VALUE;
}

API int cublasLtMatmulPreferenceCreate(void** out) {
  Call call("cublasLtMatmulPreferenceCreate", NOTHING);
  *out = reinterpret_cast<void*>(keep(driver().preferences, std::make_shared<cublas_lt::Preference>()));
  return cublas::OK;
}

API int cublasLtMatmulPreferenceDestroy(void* handle) {
  Call call("cublasLtMatmulPreferenceDestroy", NOTHING);
  return destroy(driver().preferences, handle);
}

API int cublasLtMatmulPreferenceSetAttribute(void* handle, int attribute, const void* from, size_t n) {
  Call call("cublasLtMatmulPreferenceSetAttribute", NOTHING);
  using namespace cublas_lt;
  auto found = find(driver().preferences, handle);
  if (!found) return cublas::INVALID_VALUE;
  return found->set({{PREF_WORKSPACE, 8}, {PREF_REDUCTIONS, 4}, {5, 4}, {6, 4}, {7, 4}, {8, 4}}, attribute, from, n);
}

API int cublasLtMatmulAlgoGetHeuristic(void* handle, void* description, void* a, void* b, void* c, void* d, void* preference,
                                       int wanted, cublas_lt::Result* results, int* count) {
  Call call("cublasLtMatmulAlgoGetHeuristic", NOTHING);
  using namespace cublas_lt;
  auto by = find(driver().descriptions, description);
  auto pref = find(driver().preferences, preference);
  shared_ptr<Layout> of[4];
  void* given[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) of[i] = find(driver().layouts, given[i]);
  *count = 0;
  if (!find(driver().blas_lt, handle)) return cublas::NOT_INITIALIZED;
  if (!by || !pref || !of[0] || !of[1] || !of[2] || !of[3] || wanted < 1) return cublas::INVALID_VALUE;
  if (int error = check(*by, *of[0], *of[1], *of[2], *of[3])) return error;
  // the machine must not ask for sums that are rounded to a type narrower than they are computed in
  if (pref->get(PREF_REDUCTIONS, 7) & OUTPUT_REDUCTIONS || setting("no_algorithm")) return cublas::NOT_SUPPORTED;
  uint64_t alignment = ALIGNMENT;
  for (int i = PREF_ALIGNMENT_A; i <= PREF_ALIGNMENT_D; ++i) alignment = std::min(alignment, pref->get(i, 256));
  uint64_t bias = by->epilogue() & BIAS ? by->get(DESC_BIAS_POINTER) | ALIGNMENT : ALIGNMENT;
  memset(results, 0, sizeof *results);
  results->workspace = pref->get(PREF_WORKSPACE) >= WORKSPACE && of[0]->columns >= 16 ? WORKSPACE : 0;
  results->algorithm = {MAGIC, hashed(*by, *of[0], *of[1], *of[3]), alignment, bias & (~bias + 1), results->workspace, {}};
  *count = 1;
  return cublas::OK;
}

API int cublasLtMatmul(void* handle, void* description, const void* alpha, const void* a, void* layout_a, const void* b,
                       void* layout_b, const void* beta, const void* c, void* layout_c, void* d, void* layout_d,
                       const cublas_lt::Algorithm* algorithm, void* workspace, size_t n, void* stream_handle) {
  Call call("cublasLtMatmul", CONTEXT);
  using namespace cublas_lt;
  if (call.error) return cublas::EXECUTION_FAILED;
  auto by = find(driver().descriptions, description);
  shared_ptr<Layout> of[4];
  void* given[] = {layout_a, layout_b, layout_c, layout_d};
  for (int i = 0; i < 4; ++i) of[i] = find(driver().layouts, given[i]);
  auto stream = find(driver().streams, stream_handle);
  if (!find(driver().blas_lt, handle) || !stream) return cublas::NOT_INITIALIZED;
  if (!by || !of[0] || !of[1] || !of[2] || !of[3] || !alpha || !beta) return cublas::INVALID_VALUE;
  if (int error = check(*by, *of[0], *of[1], *of[2], *of[3])) return error;
  uint64_t bias = by->epilogue() & BIAS ? by->get(DESC_BIAS_POINTER) : 0;
  if (!algorithm || algorithm->magic != MAGIC || algorithm->product != hashed(*by, *of[0], *of[1], *of[3]))
    return failed(cublas::INVALID_VALUE, "cublasLtMatmul: the algorithm is of another product");
  for (const void* address : {a, b, c, static_cast<const void*>(d)})
    if (!is_aligned(uint64_t(address), algorithm->alignment))
      return failed(cublas::INVALID_VALUE, "cublasLtMatmul: a matrix is aligned less than the algorithm needs");
  if (!is_aligned(bias, algorithm->bias_alignment))
    return failed(cublas::INVALID_VALUE, "cublasLtMatmul: the bias is aligned less than the algorithm needs");
  size_t used = algorithm->workspace;
  if (n < used || (used && !memory::is_known(uint64_t(workspace), n)) || !is_aligned(uint64_t(workspace), 256))
    return failed(cublas::INVALID_VALUE, "cublasLtMatmul: the workspace is too small, or not memory of the device");
  bool ta = by->transposes(DESC_TRANS_A), tb = by->transposes(DESC_TRANS_B), doubles = by->compute == cublas::C_64F;
  auto number = [&](const void* from) {
    return by->scale == cublas::R_32I ? double(*static_cast<const int32_t*>(from)) : cublas::scalar(from, doubles);
  };
  cublas::Product product = {of[0]->at(a), of[1]->at(b), of[3]->at(d), ta, tb, by->compute == cublas::C_32F_TF32, doubles || by->compute == cublas::C_32I,
                             int64_t(of[3]->rows), int64_t(of[3]->columns), int64_t(ta ? of[0]->rows : of[0]->columns),
                             of[3]->batches(), number(alpha), number(beta)};
  product.added = uint64_t(c);
  product.bias = bias;
  product.relu = by->epilogue() != PLAIN && by->epilogue() & RELU;
  auto run = [=] {
    if (used) memset(workspace, memory::POISON, used);
    cublas::run(product);
  };
  return streams::enqueue(*stream, run) ? cublas::EXECUTION_FAILED : cublas::OK;
}
