// The functions of cuBLAS, under its own names: they give its status, not a CUresult.
#pragma once
#include "handles.hpp"

namespace {

shared_ptr<cublas::Handle> blas_handle(void* handle) { return find(driver().blas, handle); }

}  // namespace

API int cublasCreate_v2(void** out) {
  Call call("cublasCreate", CONTEXT);
  if (call.error) return cublas::NOT_INITIALIZED;
  *out = reinterpret_cast<void*>(keep(driver().blas, std::make_shared<cublas::Handle>()));
  return cublas::OK;
}

API int cublasDestroy_v2(void* handle) {
  Call call("cublasDestroy", NOTHING);
  return driver().blas.erase(uint64_t(handle)) ? cublas::OK : cublas::NOT_INITIALIZED;
}

API int cublasSetStream_v2(void* handle, void* stream) {
  Call call("cublasSetStream", CONTEXT);
  auto blas = blas_handle(handle);
  if (call.error || !blas || !find(driver().streams, stream)) return cublas::NOT_INITIALIZED;
  blas->stream = uint64_t(stream);
  return cublas::OK;
}

API int cublasSetWorkspace_v2(void* handle, void* workspace, size_t n) {
  Call call("cublasSetWorkspace", CONTEXT);
  if (call.error || !blas_handle(handle)) return cublas::NOT_INITIALIZED;
  return memory::is_known(uint64_t(workspace), n) && uint64_t(workspace) % 256 == 0 ? cublas::OK : cublas::INVALID_VALUE;
}

API int cublasSetMathMode(void* handle, int mode) {
  Call call("cublasSetMathMode", NOTHING);
  auto blas = blas_handle(handle);
  if (!blas) return cublas::NOT_INITIALIZED;
  blas->tf32 = (mode & 15) == 3;
  return cublas::OK;
}

API int cublasGemmStridedBatchedEx(void* handle, int transpose_a, int transpose_b, int m, int n, int k, const void* alpha,
                                   const void* a, int type_a, int lda, long long stride_a, const void* b, int type_b, int ldb,
                                   long long stride_b, const void* beta, void* c, int type_c, int ldc, long long stride_c,
                                   int batches, int compute, int) {
  Call call("cublasGemmStridedBatchedEx", CONTEXT);
  auto blas = blas_handle(handle);
  auto stream = blas ? find(driver().streams, reinterpret_cast<void*>(blas->stream)) : nullptr;
  if (call.error) return cublas::EXECUTION_FAILED;
  if (!stream) return cublas::NOT_INITIALIZED;
  if (m < 0 || n < 0 || k < 0 || batches < 0 || transpose_a < 0 || transpose_a > 2 || transpose_b < 0 || transpose_b > 2 ||
      lda < std::max(1, transpose_a ? k : m) || ldb < std::max(1, transpose_b ? n : k) || ldc < std::max(1, m) || !alpha || !beta)
    return cublas::INVALID_VALUE;
  if (!cublas::supported(type_a, type_b, type_c, compute)) return cublas::NOT_SUPPORTED;
  bool doubles = type_a == cublas::R_64F;
  cublas::Product product = {
      {uint64_t(a), type_a, transpose_a ? k : m, transpose_a ? m : k, lda, stride_a},
      {uint64_t(b), type_b, transpose_b ? n : k, transpose_b ? k : n, ldb, stride_b},
      {uint64_t(c), type_c, m, n, ldc, stride_c},
      transpose_a != 0,
      transpose_b != 0,
      compute == cublas::C_32F_TF32 || (blas->tf32 && compute == cublas::C_32F && type_a == cublas::R_32F),
      doubles,
      m,
      n,
      k,
      batches,
      cublas::scalar(alpha, doubles),
      cublas::scalar(beta, doubles)};
  if (m == 0 || n == 0 || batches == 0) return cublas::OK;
  return streams::enqueue(*stream, [product] { cublas::run(product); }) ? cublas::EXECUTION_FAILED : cublas::OK;
}
