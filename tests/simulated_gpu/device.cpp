#include "device.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <sstream>
#include <thread>

namespace simulated {

static Settings read_settings() {
  Settings read;
  std::map<std::string, double*> names{
      {"kernel_us", &read.kernel_us}, {"launch_us", &read.launch_us}, {"latency_us", &read.latency_us},
      {"gb_per_s", &read.gb_per_s}, {"copy_gb_per_s", &read.copy_gb_per_s}, {"memory_mb", &read.memory_mb},
      {"queue", &read.queue}, {"devices", &read.devices}, {"cupti", &read.cupti}};
  const char* given = std::getenv("SIMULATED_GPU");
  std::stringstream parts(given ? given : "");
  for (std::string part; std::getline(parts, part, ',');) {
    auto at = part.find('=');
    if (at != std::string::npos && names.count(part.substr(0, at)))
      *names[part.substr(0, at)] = std::stod(part.substr(at + 1));
  }
  return read;
}
const Settings& settings() {
  static Settings read;
  static pid_t reader = 0;
  if (reader != getpid()) { read = read_settings(); reader = getpid(); }
  return read;
}

struct Stream {
  int64_t end_ns = 0;
  std::deque<int64_t> pending;  // when what is in its queue will have ended
};

static std::mutex guard;
static std::map<std::pair<int, int>, Stream> streams;
static std::vector<Row> rows;
static std::atomic<bool> recording{false};
static std::atomic<int> made_streams{0};
static std::atomic<int64_t> next_correlation{1};
static Memory memories[kMostDevices];
static Graph* capturing = nullptr;
static thread_local int device_now = 0;
static thread_local int stream_now[kMostDevices] = {};
thread_local std::vector<uint64_t> operators, spans;

bool is_forbidden = false;
static void refuse_where_forbidden() {
  if (is_forbidden) throw Refused("CUDA error: initialization error");
}

int64_t now_ns() {
  // Kineto's clock.
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch()).count();
}
static int64_t this_thread() { return syscall(SYS_gettid); }
static int64_t ns(double us) { return static_cast<int64_t>(us * 1e3); }
static void spin_until(int64_t until) { while (now_ns() < until) {} }
static void sleep_until(int64_t until) {
  int64_t left = until - now_ns();
  // A sleep ends up to a tenth of a millisecond late: the last of it is waited for awake, as a driver does.
  if (left > 200'000) std::this_thread::sleep_for(std::chrono::nanoseconds(left - 150'000));
  spin_until(until);
}

int current_device() { return device_now; }
int exchange_device(int device) { std::swap(device, device_now); return device; }
int current_stream(int device) { return stream_now[device]; }
int exchange_stream(int device, int stream) { std::swap(stream, stream_now[device]); return stream; }
int new_stream(int) { return ++made_streams; }

int64_t touching_ns(double bytes) { return ns(settings().kernel_us) + static_cast<int64_t>(bytes / settings().gb_per_s); }
int64_t copying_ns(double bytes) { return 1500 + static_cast<int64_t>(bytes / settings().copy_gb_per_s); }

static void note_call(const char* name, int64_t start_ns, int64_t correlation) {
  // Under the guard. The profiler drops what has no length.
  if (!recording) return;
  int64_t end_ns = std::max(now_ns(), start_ns + 1);
  rows.push_back({Row::kCall, name, start_ns, end_ns, correlation, operators.empty() ? 0 : operators.back(),
                  device_now, 0, this_thread()});
}

static void schedule(int device, int stream, const std::vector<Work>& work, int64_t earliest_ns, int64_t correlation) {
  // Under the guard.
  Stream& line = streams[{device, stream}];
  int64_t first = 0;
  for (const Work& one : work) {
    int64_t start_ns = std::max(earliest_ns, line.end_ns ? line.end_ns + 500 : 0);
    if (!first) first = start_ns;
    line.end_ns = start_ns + one.ns;
    if (recording)
      rows.push_back({one.kind, one.name, start_ns, line.end_ns, correlation,
                      operators.empty() ? 0 : operators.back(), device, stream, this_thread()});
  }
  line.pending.push_back(line.end_ns);
  if (recording && !spans.empty())
    rows.push_back({Row::kAnnotation, "", first, line.end_ns, 0, spans.back(), device, stream, this_thread()});
}

void launch(int device, const std::vector<Work>& work, const char* call) {
  refuse_where_forbidden();
  int64_t start_ns = now_ns();
  spin_until(start_ns + ns(settings().launch_us));
  int stream = current_stream(device);
  int64_t room_ns = 0;
  {
    std::lock_guard<std::mutex> lock(guard);
    if (capturing) {
      capturing->work.insert(capturing->work.end(), work.begin(), work.end());
      note_call(call, start_ns, next_correlation++);
      return;
    }
    auto& pending = streams[{device, stream}].pending;
    while (!pending.empty() && pending.front() <= start_ns) pending.pop_front();
    if (pending.size() >= settings().queue) room_ns = pending[pending.size() - static_cast<size_t>(settings().queue)];
  }
  if (room_ns) sleep_until(room_ns);  // the queue is full: the call returns when there is room in it
  std::lock_guard<std::mutex> lock(guard);
  int64_t correlation = next_correlation++;
  note_call(call, start_ns, correlation);
  schedule(device, stream, work, now_ns() + ns(settings().latency_us), correlation);
}

static void refuse_while_capturing() {
  if (capturing) throw Refused("CUDA error: operation not permitted when stream is capturing");
}

static void wait_until(int64_t until_ns, int64_t start_ns, const char* call) {
  sleep_until(until_ns);
  std::lock_guard<std::mutex> lock(guard);
  note_call(call, start_ns, next_correlation++);
}

static int64_t end_of(int device, int stream) {
  std::lock_guard<std::mutex> lock(guard);
  return streams[{device, stream}].end_ns;
}

void record(Event& event, int device, int stream) {
  int64_t start_ns = now_ns();
  std::lock_guard<std::mutex> lock(guard);
  event.captured = capturing != nullptr;
  event.at_ns = std::max(start_ns + ns(settings().latency_us), streams[{device, stream}].end_ns);
  note_call("cudaEventRecord", start_ns, next_correlation++);
}

void wait_for(const Event& event, int device, int stream) {
  int64_t start_ns = now_ns();
  std::lock_guard<std::mutex> lock(guard);
  if (!capturing && !event.captured) {
    auto& end_ns = streams[{device, stream}].end_ns;
    end_ns = std::max(end_ns, event.at_ns);
  }
  note_call("cudaStreamWaitEvent", start_ns, next_correlation++);
}

bool done(int device, int stream) { refuse_while_capturing(); return end_of(device, stream) <= now_ns(); }
void synchronize_stream(int device, int stream) {
  refuse_while_capturing();
  int64_t start_ns = now_ns();
  wait_until(end_of(device, stream), start_ns, "cudaStreamSynchronize");
}
void synchronize_event(const Event& event) {
  refuse_while_capturing();
  int64_t start_ns = now_ns();
  wait_until(event.at_ns, start_ns, "cudaEventSynchronize");
}
void synchronize_device(int device) {
  refuse_while_capturing();
  int64_t start_ns = now_ns(), until_ns = 0;
  {
    std::lock_guard<std::mutex> lock(guard);
    for (auto& [at, stream] : streams)
      if (at.first == device) until_ns = std::max(until_ns, stream.end_ns);
  }
  wait_until(until_ns, start_ns, "cudaDeviceSynchronize");
}

Graph* captured() { return capturing; }
void begin_capture(Graph* graph, int) { capturing = graph; }
void end_capture() { capturing = nullptr; }
void replay(Graph& graph, int device) {
  for (auto& compute : graph.again) compute();
  launch(device, graph.work, "cudaGraphLaunch");
}

Memory& memory(int device) { return memories[device]; }
int64_t rounded(int64_t bytes) { return (bytes + 511) / 512 * 512; }

// The card, where several processes share it: a file that SIMULATED_GPU_CARD names, with what each has reserved.
struct Holder { pid_t process; int64_t reserved[kMostDevices]; };
constexpr int kMostHolders = 64;
static Holder* holders() {
  static Holder* mapped = [] () -> Holder* {
    const char* path = std::getenv("SIMULATED_GPU_CARD");
    int file = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
    if (file < 0 || ftruncate(file, kMostHolders * sizeof(Holder)) != 0) return nullptr;
    void* memory = mmap(nullptr, kMostHolders * sizeof(Holder), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<Holder*>(memory);
  }();
  return mapped;
}
static int64_t of_others(int device) {
  int64_t sum = 0;
  if (Holder* all = holders())
    for (int i = 0; i < kMostHolders; i++)
      if (all[i].process && all[i].process != getpid() && kill(all[i].process, 0) == 0) sum += all[i].reserved[device];
  return sum;
}
static void tell_others(int device) {
  Holder* all = holders();
  for (int i = 0; all && i < kMostHolders; i++) {
    pid_t nobody = 0;
    bool is_gone = all[i].process && kill(all[i].process, 0) != 0;
    if (is_gone) all[i] = Holder{};
    if (all[i].process != getpid() && !__atomic_compare_exchange_n(&all[i].process, &nobody, getpid(), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) continue;
    all[i].reserved[device] = memories[device].reserved;
    return;
  }
}
static int64_t in_blocks(int64_t bytes) { return (bytes + (1 << 21) - 1) >> 21 << 21; }
static int64_t total_bytes() { return static_cast<int64_t>(settings().memory_mb * (1 << 20)); }
int64_t free_bytes(int device) { return std::max<int64_t>(0, total_bytes() - of_others(device) - memories[device].reserved); }

bool take(int device, int64_t bytes) {
  refuse_where_forbidden();
  std::lock_guard<std::mutex> lock(guard);
  Memory& held = memories[device];
  int64_t wanted = in_blocks(held.allocated + bytes);
  if (wanted > held.reserved) {
    if (wanted > total_bytes() - of_others(device)) { held.out_of_memory++; return false; }
    held.reserved = wanted;
    tell_others(device);
  }
  held.allocated += bytes;
  held.calls++;
  held.peak = std::max(held.peak, held.allocated);
  return true;
}
void give(int device, int64_t bytes) {
  std::lock_guard<std::mutex> lock(guard);
  memories[device].allocated -= bytes;
}
void empty_cache(int device) {
  std::lock_guard<std::mutex> lock(guard);
  memories[device].reserved = in_blocks(memories[device].allocated);
  tell_others(device);
}

void start_recording() {
  std::lock_guard<std::mutex> lock(guard);
  rows.clear();
  recording = settings().cupti != 0;
}
std::vector<Row> stop_recording() {
  std::lock_guard<std::mutex> lock(guard);
  recording = false;
  return std::move(rows);
}

}  // namespace simulated
