// Puts the simulated device behind PyTorch's own seams for CUDA, which a build for processors leaves free.
//
// Tensors of `cuda` are held in host memory and computed by the processor's kernels at once; what the device's clock
// says is when a GPU would have been done. So scripts run unmodified, and their numbers are right.
#include "timer.h"

#include <ATen/EmptyTensor.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/record_function.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/library.h>

#include "device.h"

namespace {
using at::Tensor;
constexpr auto kCUDA = c10::DeviceType::CUDA;
constexpr int kMostPinned = 1 << 20;

c10::Device on(int index) { return c10::Device(kCUDA, static_cast<c10::DeviceIndex>(index)); }
int index_of(const c10::Device& device) { return device.has_index() ? device.index() : simulated::current_device(); }
c10::Stream stream_of(int device, int stream) { return c10::Stream(c10::Stream::UNSAFE, on(device), stream); }

// ---- memory ----

// A block of the device: its own, or what a processor's kernel made and the device takes over.
struct Block {
  void* data;
  int64_t bytes;
  int device;
  c10::Storage adopted;
};

void report(const Block& block, int64_t bytes) {
  int64_t held = simulated::memory(block.device).allocated;
  c10::reportMemoryUsageToProfiler(block.data, bytes, held, held, on(block.device));
}

void take(int device, int64_t bytes) {
  if (simulated::take(device, bytes)) return;
  double room_mb = simulated::free_bytes(device) / 1048576.0;
  TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory. Tried to allocate ", bytes / 1048576.0,
                   " MiB. GPU ", device, " has a total capacity of ", simulated::settings().memory_mb,
                   " MiB of which ", room_mb, " MiB is free.");
}

void let_go(void* context) {
  std::unique_ptr<Block> block(static_cast<Block*>(context));
  if (block->bytes) {
    simulated::give(block->device, block->bytes);
    report(*block, -block->bytes);
  }
  if (!block->adopted) c10::free_cpu(block->data);
}

c10::DataPtr held(std::unique_ptr<Block> block) {
  if (block->bytes) report(*block, block->bytes);
  void* data = block->data;
  auto device = on(block->device);
  return {data, block.release(), let_go, device};
}

struct DeviceMemory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    int device = simulated::current_device();
    if (bytes == 0) return {nullptr, on(device)};
    take(device, simulated::rounded(bytes));
    return held(std::make_unique<Block>(Block{c10::alloc_cpu(bytes), simulated::rounded(bytes), device, {}}));
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};
DeviceMemory device_memory;
REGISTER_ALLOCATOR(kCUDA, &device_memory)

// The host's memory that copies run from beside the script: ordinary memory, remembered.
std::mutex pinned_guard;
std::map<const char*, size_t> pinned;
void unpin(void* data) {
  { std::lock_guard<std::mutex> lock(pinned_guard); pinned.erase(static_cast<char*>(data)); }
  c10::free_cpu(data);
}
bool is_pinned(const void* data) {
  std::lock_guard<std::mutex> lock(pinned_guard);
  auto after = pinned.upper_bound(static_cast<const char*>(data));
  if (after == pinned.begin()) return false;
  auto& [start, bytes] = *std::prev(after);
  return data < start + bytes;
}
struct PinnedMemory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = c10::alloc_cpu(std::max<size_t>(bytes, 1));
    std::lock_guard<std::mutex> lock(pinned_guard);
    pinned[static_cast<char*>(data)] = std::max<size_t>(bytes, 1);
    return {data, data, unpin, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return unpin; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { std::memcpy(to, from, bytes); }
};
PinnedMemory pinned_memory;

// ---- devices, streams, events, chance ----

bool hands_out_default = false;  // what `torch.Generator` gives: the device's own, or a new one

const at::Generator& chance(int device) {
  static std::vector<at::Generator> all = [] {
    std::vector<at::Generator> made;
    for (int i = 0; i < simulated::kMostDevices; i++) made.push_back(at::detail::createCPUGenerator());
    return made;
  }();
  return all[device < 0 ? simulated::current_device() : device];
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kCUDA; }
  c10::Device exchangeDevice(c10::Device to) const override { return on(simulated::exchange_device(index_of(to))); }
  c10::Device getDevice() const override { return on(simulated::current_device()); }
  void setDevice(c10::Device to) const override { simulated::exchange_device(index_of(to)); }
  void uncheckedSetDevice(c10::Device to) const noexcept override { simulated::exchange_device(index_of(to)); }
  c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(simulated::settings().devices); }
  c10::Stream getStream(c10::Device of) const override { return stream_of(index_of(of), simulated::current_stream(index_of(of))); }
  c10::Stream getDefaultStream(c10::Device of) const override { return stream_of(index_of(of), 0); }
  c10::Stream getStreamFromGlobalPool(c10::Device of, bool) const override { return getNewStream(of, 0); }
  c10::Stream getNewStream(c10::Device of, int) const override { return stream_of(index_of(of), simulated::new_stream(index_of(of))); }
  c10::Stream exchangeStream(c10::Stream to) const override {
    return stream_of(to.device_index(), simulated::exchange_stream(to.device_index(), to.id()));
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (!*event) *event = new simulated::Event;
    simulated::record(*static_cast<simulated::Event*>(*event), stream.device_index(), stream.id());
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) simulated::wait_for(*static_cast<simulated::Event*>(event), stream.device_index(), stream.id());
  }
  bool queryEvent(void* event) const override {
    return !event || static_cast<simulated::Event*>(event)->at_ns <= simulated::now_ns();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override { delete static_cast<simulated::Event*>(event); }
  bool queryStream(const c10::Stream& stream) const override { return simulated::done(stream.device_index(), stream.id()); }
  void synchronizeStream(const c10::Stream& stream) const override { simulated::synchronize_stream(stream.device_index(), stream.id()); }
  void synchronizeEvent(void* event) const override { if (event) simulated::synchronize_event(*static_cast<simulated::Event*>(event)); }
  void synchronizeDevice(const c10::DeviceIndex device) const override { simulated::synchronize_device(device); }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    auto* ended = static_cast<simulated::Event*>(to);
    TORCH_CHECK(from && ended, "Both events must be recorded before calculating elapsed time.");
    TORCH_CHECK(ended->at_ns <= simulated::now_ns(), "CUDA error: device not ready");
    return (ended->at_ns - static_cast<simulated::Event*>(from)->at_ns) / 1e6;
  }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard)

}  // namespace

namespace at {
struct SimulatedHooks final : CUDAHooksInterface {
  explicit SimulatedHooks(CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return static_cast<DeviceIndex>(simulated::settings().devices); }
  int getNumGPUs() const override { return deviceCount(); }
  DeviceIndex current_device() const override { return simulated::current_device(); }
  DeviceIndex getCurrentDevice() const override { return simulated::current_device(); }
  DeviceIndex exchangeDevice(DeviceIndex to) const override { return simulated::exchange_device(to); }
  DeviceIndex maybeExchangeDevice(DeviceIndex to) const override { return simulated::exchange_device(to); }
  void setCurrentDevice(DeviceIndex to) const override { simulated::exchange_device(to); }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory; }
  Allocator* getCUDADeviceAllocator() const override { return &device_memory; }
  Device getDeviceFromPtr(void*) const override { return on(simulated::current_device()); }
  const Generator& getDefaultGenerator(DeviceIndex device) const override { return chance(device); }
  Generator getNewGenerator(DeviceIndex device) const override {
    return hands_out_default ? chance(device) : at::detail::createCPUGenerator();
  }
  void deviceSynchronize(DeviceIndex device) const override { simulated::synchronize_device(device); }
};
C10_REGISTER_CLASS(CUDAHooksRegistry, CUDAHooks, SimulatedHooks)
}  // namespace at

namespace {
// ---- operators ----

Tensor over(c10::Storage storage, c10::DispatchKey key, const Tensor& like) {
  auto made = at::detail::make_tensor_base<at::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
  auto* inner = made.unsafeGetTensorImpl();
  inner->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  if (like.unsafeGetTensorImpl()->is_wrapped_number()) inner->set_wrapped_number(true);
  return made;
}

// The same memory as the processor sees it. It keeps the block, since a captured graph computes in it again.
Tensor on_host(const Tensor& tensor) {
  const auto& storage = tensor.storage();
  auto* keeper = new c10::Storage(storage);
  c10::DataPtr data(storage.mutable_data(), keeper, [](void* kept) { delete static_cast<c10::Storage*>(kept); },
                    c10::Device(c10::kCPU));
  c10::Storage seen(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data), c10::GetAllocator(c10::kCPU), true);
  return over(std::move(seen), c10::DispatchKey::CPU, tensor);
}

// What a processor's kernel made, taken over by the device.
c10::Storage taken_over(const c10::Storage& made, int device) {
  int64_t bytes = simulated::rounded(made.nbytes());
  if (bytes) take(device, bytes);
  auto block = std::make_unique<Block>(Block{made.mutable_data(), bytes, device, made});
  return {c10::Storage::use_byte_size_t(), made.nbytes(), held(std::move(block)), &device_memory, true};
}

Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
             std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  c10::DeviceGuard there(on(index_of(device.value_or(on(simulated::current_device())))));
  return at::detail::empty_generic(sizes, &device_memory, c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   c10::dtype_or_default(type), format);
}

Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                     std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  c10::DeviceGuard there(on(index_of(device.value_or(on(simulated::current_device())))));
  return at::detail::empty_strided_generic(sizes, strides, &device_memory,
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA), c10::dtype_or_default(type));
}

Tensor as_strided(const Tensor& self, at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<int64_t> offset) {
  Tensor made = over(self.storage(), c10::DispatchKey::CUDA, self);
  made.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset.value_or(self.storage_offset()));
  return made;
}

Tensor& set_storage(Tensor& self, at::Storage storage, int64_t offset, at::IntArrayRef sizes, at::IntArrayRef strides) {
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(storage));
  if (strides.size() == sizes.size())
    self.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  else
    self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return self;
}

const Tensor& resize(const Tensor& self, at::IntArrayRef sizes, std::optional<at::MemoryFormat>) {
  int64_t count = c10::multiply_integers(sizes);
  if ((count + self.storage_offset()) * self.itemsize() > static_cast<int64_t>(self.storage().nbytes())) {
    Tensor larger = empty(sizes, self.scalar_type(), {}, self.device(), {}, {});
    std::memcpy(larger.mutable_data_ptr(), self.storage().data(), self.storage().nbytes());
    self.unsafeGetTensorImpl()->set_storage_keep_dtype(larger.storage());
  }
  self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return self;
}

void record_stream(Tensor&, c10::Stream) {}  // memory is given back at once here: nothing is still at work in it

void again(std::function<void()> compute) {
  if (auto* graph = simulated::captured()) graph->again.push_back(std::move(compute));
}

Tensor& copy(Tensor& self, const Tensor& source, bool non_blocking) {
  bool from = source.device().type() == kCUDA, to = self.device().type() == kCUDA;
  int device = index_of((to ? self : source).device());
  Tensor read = from ? on_host(source) : source, written = to ? on_host(self) : self;
  if (from && to) {
    simulated::launch(device, {{"void at::native::copy_kernel", simulated::touching_ns(2.0 * self.nbytes())}}, "cudaLaunchKernel");
  } else {
    const Tensor& host = from ? self : source;
    bool is_beside = is_pinned(host.storage().data());
    std::string sides = from ? (is_beside ? "DtoH (Device -> Pinned)" : "DtoH (Device -> Pageable)")
                             : (is_beside ? "HtoD (Pinned -> Device)" : "HtoD (Pageable -> Device)");
    simulated::launch(device, {{"Memcpy " + sides, simulated::copying_ns(host.nbytes()), simulated::Row::kCopy}}, "cudaMemcpyAsync");
    if (!non_blocking) simulated::synchronize_stream(device, simulated::current_stream(device));
  }
  at::NoGradGuard plain;
  written.copy_(read);
  again([written, read]() mutable { at::NoGradGuard plain; written.copy_(read); });
  return self;
}

at::Scalar item(const Tensor& self) {
  int device = index_of(self.device());
  simulated::launch(device, {{"Memcpy DtoH (Device -> Pinned)", simulated::copying_ns(4), simulated::Row::kCopy}}, "cudaMemcpyAsync");
  simulated::synchronize_stream(device, simulated::current_stream(device));
  return on_host(self).item();
}

// One call of any other operator: on the processor, in the device's memory.
struct Call {
  std::vector<std::pair<Tensor, Tensor>> seen;  // as the processor sees it, as it is
  int device = -1;
  double bytes = 0;
  bool is_view = false;

  Tensor lent(const Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kCUDA) return tensor;
    if (device < 0) device = index_of(tensor.device());
    bytes += tensor.nbytes();
    seen.emplace_back(on_host(tensor), tensor);
    return seen.back().first;
  }

  Tensor returned(const Tensor& made) {
    if (!made.defined()) return made;
    for (auto& [host, own] : seen) {
      if (host.is_same(made)) {
        // An output that was too small has been given memory of its own.
        if (made.storage().data() != own.storage().data())
          own.unsafeGetTensorImpl()->set_storage_keep_dtype(taken_over(made.storage(), device));
        if (own.sizes() != made.sizes()) own.unsafeGetTensorImpl()->set_sizes_and_strides(made.sizes(), made.strides());
        return own;
      }
    }
    for (auto& [host, own] : seen) {
      if (made.storage().nbytes() && host.storage().data() == made.storage().data()) {
        is_view = true;
        return over(own.storage(), c10::DispatchKey::CUDA, made);
      }
    }
    bytes += made.nbytes();
    return over(taken_over(made.storage(), device), c10::DispatchKey::CUDA, made);
  }

  template <typename Change>
  static c10::List<Tensor> all(const c10::List<Tensor>& given, Change change) {
    c10::List<Tensor> list;
    for (const Tensor& tensor : given) list.push_back(change(tensor));
    return list;
  }

  template <typename Change>
  static void each(torch::jit::Stack& stack, size_t from, Change change) {
    for (size_t i = from; i < stack.size(); i++) {
      auto& value = stack[i];
      if (value.isTensor()) {
        value = change(value.toTensor());
      } else if (value.isTensorList()) {
        value = all(value.toTensorList(), change);
      } else if (value.isList() && value.toList().size() && value.toList().get(0).isTensorList()) {
        c10::List<c10::List<Tensor>> lists;
        for (const c10::IValue& list : value.toList()) lists.push_back(all(list.toTensorList(), change));
        value = lists;
      } else if (value.isOptionalTensorList()) {
        c10::List<std::optional<Tensor>> list;
        for (std::optional<Tensor> tensor : value.toOptionalTensorList()) list.push_back(tensor ? std::optional<Tensor>(change(*tensor)) : tensor);
        value = list;
      }
    }
  }
};

std::vector<Tensor> tensors(torch::jit::Stack stack, size_t from) {
  std::vector<Tensor> found;
  Call::each(stack, from, [&](const Tensor& tensor) { found.push_back(tensor); return tensor; });
  return found;
}

void any_operator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  size_t first = stack->size() - schema.arguments().size();
  Call call;
  Call::each(*stack, first, [&](const Tensor& tensor) { return call.lent(tensor); });
  for (size_t i = first; i < stack->size(); i++) {
    auto& value = (*stack)[i];
    bool draws = schema.arguments()[i - first].name() == "generator";
    if (value.isDevice() && value.toDevice().type() == kCUDA) {
      if (call.device < 0) call.device = index_of(value.toDevice());
      value = c10::Device(c10::kCPU);
    } else if (draws && value.isNone()) {
      value = chance(call.device);
    }
  }
  if (call.device < 0) call.device = simulated::current_device();
  torch::jit::Stack given(stack->begin() + first, stack->end());
  {
    // What the processor calls in turn is inside of a kernel, where no profiler looks.
    at::RecordFunctionGuard unseen(false);
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  size_t from = stack->size() - schema.returns().size();
  auto made = tensors(*stack, from);
  Call::each(*stack, from, [&](const Tensor& tensor) { return call.returned(tensor); });
  if (call.is_view) return;
  again([op, given, made]() {
    torch::jit::Stack redone = given;
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &redone);
    auto remade = tensors(redone, redone.size() - op.schema().returns().size());
    for (size_t i = 0; i < made.size(); i++)
      if (made[i].defined() && !made[i].is_same(remade[i])) made[i].copy_(remade[i]);
  });
  auto name = schema.name().substr(schema.name().find("::") + 2);
  bool fills = name == "zero_" || name == "fill_";
  simulated::launch(call.device, {{fills ? "Memset (Device)" : "void at::native::" + name + "_kernel",
                                   simulated::touching_ns(call.bytes), fills ? simulated::Row::kFill : simulated::Row::kKernel}},
                    fills ? "cudaMemsetAsync" : "cudaLaunchKernel");
}

// Computed by the group's backend for the host; the device's queue is as NCCL's: a stream of its own, which waits for
// the one that called and which that one waits for.
void collective(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  Call call;
  Call::each(*stack, stack->size() - schema.arguments().size(), [&](const Tensor& tensor) { return call.lent(tensor); });
  if (call.device < 0) call.device = simulated::current_device();
  static int communication = simulated::new_stream(call.device);
  int caller = simulated::current_stream(call.device);
  simulated::Event ready, done;
  simulated::record(ready, call.device, caller);
  simulated::wait_for(ready, call.device, communication);
  simulated::exchange_stream(call.device, communication);
  auto name = schema.name().substr(schema.name().find("::") + 2);
  simulated::launch(call.device, {{"ncclDevKernel_" + name, simulated::touching_ns(8 * call.bytes)}}, "cudaLaunchKernelExC");
  simulated::record(done, call.device, communication);
  simulated::exchange_stream(call.device, caller);
  simulated::wait_for(done, call.device, caller);
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  Call::each(*stack, stack->size() - schema.returns().size(), [&](const Tensor& tensor) { return call.returned(tensor); });
}

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", as_strided);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("resize_", resize);
  m.impl("record_stream", record_stream);
  m.impl("copy_", copy);
  m.impl("_local_scalar_dense", item);
  // What the processor has a kernel for is one kernel here as well, and not what PyTorch would compose it of; so are
  // operators on lists of tensors.
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    auto op = c10::Dispatcher::singleton().findOp(name);
    if (!op || name.name.rfind("aten::", 0) != 0 || op->hasKernelForDispatchKey(c10::DispatchKey::CUDA)) continue;
    if (!op->hasKernelForDispatchKey(c10::DispatchKey::CPU) && name.name.rfind("aten::_foreach_", 0) != 0) continue;
    auto full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    m.impl(full.c_str() + 6, torch::CppFunction::makeFromBoxedFunction<&any_operator>());
  }
}
TORCH_LIBRARY_IMPL(_, CUDA, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&any_operator>()); }

thread_local std::string refusal;
template <typename Do> int attempted(Do act) {
  try { act(); return 0; } catch (const std::exception& error) { refusal = error.what(); return 1; }
}
}  // namespace

// ---- what torch.cuda asks of PyTorch's C part, for boot.py ----
extern "C" {
const char* simulated_refusal() { return refusal.c_str(); }
double simulated_setting_memory_mb() { return simulated::settings().memory_mb; }
int simulated_devices() { return static_cast<int>(simulated::settings().devices); }
void simulated_forbid(int does) { simulated::is_forbidden = does; }
void simulated_connect_collectives() {
  static torch::Library* library = nullptr;
  if (library) return;
  library = new torch::Library(torch::Library::IMPL, "c10d", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  for (auto name : {"allreduce_", "broadcast_", "allgather_", "_allgather_base_", "_reduce_scatter_base_", "reduce_", "barrier"})
    library->impl(name, torch::CppFunction::makeFromBoxedFunction<&collective>());
}
int simulated_device() { return simulated::current_device(); }
int simulated_exchange_device(int to) { return simulated::exchange_device(to); }
int simulated_stream(int device) { return simulated::current_stream(device); }
int simulated_exchange_stream(int device, int to) { return simulated::exchange_stream(device, to); }
int simulated_synchronize(int device) { return attempted([&] { simulated::synchronize_device(device); }); }
int simulated_launch(const char* name, double us, const char* call) {
  return attempted([&] { simulated::launch(simulated::current_device(), {{name, static_cast<int64_t>(us * 1e3)}}, call); });
}
int64_t simulated_memory(int device, int which) {
  auto& held = simulated::memory(device);
  int64_t told[] = {held.allocated, held.peak, held.reserved, held.calls, held.out_of_memory, simulated::free_bytes(device)};
  return told[which];
}
void simulated_empty_cache(int device) { simulated::empty_cache(device); }
void simulated_reset_peak(int device) { simulated::memory(device).peak = simulated::memory(device).allocated; }
int simulated_elapsed(void* from, void* to, double* ms) {
  return attempted([&] { *ms = Guard().elapsedTime(from, to, 0); });
}
void* simulated_graph() { return new simulated::Graph; }
void simulated_delete_graph(void* graph) { delete static_cast<simulated::Graph*>(graph); }
int simulated_begin_capture(void* graph) {
  return attempted([&] { simulated::begin_capture(static_cast<simulated::Graph*>(graph), simulated::current_device()); });
}
void simulated_end_capture() { simulated::end_capture(); }
int simulated_is_capturing() { return simulated::captured() != nullptr; }
int simulated_replay(void* graph) {
  return attempted([&] {
    at::AutoDispatchBelowADInplaceOrView plain;
    simulated::replay(*static_cast<simulated::Graph*>(graph), simulated::current_device());
  });
}
void simulated_hand_out_default(int does) { hands_out_default = does; }
}
