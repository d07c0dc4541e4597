// The simulated device: clocks of streams, memory with a limit, graphs, and the rows that CUPTI would have reported.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

namespace simulated {

constexpr int kMostDevices = 8;

// What `SIMULATED_GPU=name=value,…` says, in its units. A process that was forked reads it anew.
struct Settings {
  double kernel_us = 20, launch_us = 4, latency_us = 4, gb_per_s = 100, copy_gb_per_s = 10, memory_mb = 16384;
  double queue = 1024, devices = 1, cupti = 1;
};
const Settings& settings();

// One line of a trace. `on_device` rows have a stream, the others a thread.
struct Row {
  enum Kind { kCall, kKernel, kCopy, kFill, kAnnotation } kind;
  std::string name;
  int64_t start_ns, end_ns, correlation;
  uint64_t op;  // the operator's, or the span's for an annotation; 0: none
  int device, stream;
  int64_t thread;
};

struct Work {
  std::string name;
  int64_t ns;
  Row::Kind kind = Row::kKernel;
};

struct Event {
  int64_t at_ns = 0;
  bool captured = false;
};

struct Graph {
  std::vector<Work> work;
  std::vector<std::function<void()>> again;  // computes what was captured, in the same memory
};

struct Refused : std::runtime_error { using runtime_error::runtime_error; };

extern bool is_forbidden;  // in a child of a process that used the device

int64_t now_ns();
int current_device();
int exchange_device(int device);
int current_stream(int device);
int exchange_stream(int device, int stream);
int new_stream(int device);

// Puts work on a device's current stream, as a runtime call of this name would.
void launch(int device, const std::vector<Work>& work, const char* call);
int64_t touching_ns(double bytes);
int64_t copying_ns(double bytes);

void record(Event& event, int device, int stream);
void wait_for(const Event& event, int device, int stream);
bool done(int device, int stream);
void synchronize_stream(int device, int stream);
void synchronize_event(const Event& event);
void synchronize_device(int device);

Graph* captured();
void begin_capture(Graph* graph, int device);
void end_capture();
void replay(Graph& graph, int device);

// `reserved` is what the caching allocator took from the device, in whole blocks, and keeps until its cache is emptied.
struct Memory { int64_t allocated, peak, reserved, calls, out_of_memory; };
Memory& memory(int device);
int64_t rounded(int64_t bytes);
bool take(int device, int64_t bytes);  // false: more than there is
void give(int device, int64_t bytes);
void empty_cache(int device);
int64_t free_bytes(int device);

void start_recording();
std::vector<Row> stop_recording();
extern thread_local std::vector<uint64_t> operators, spans;

}  // namespace simulated
