// A child of PyTorch's profiler that reports what CUPTI would: runtime calls, kernels, copies, fills, annotations.
#include <kineto/GenericTraceActivity.h>
#include <kineto/IActivityProfiler.h>
#include <kineto/libkineto.h>
#include <kineto/output_base.h>
#include <unistd.h>

#include "device.h"

namespace {
using namespace libkineto;
using simulated::Row;

constexpr int kFirstStream = 7;  // what CUPTI calls the default stream

ActivityType type_of(Row::Kind kind) {
  switch (kind) {
    case Row::kCall: return ActivityType::CUDA_RUNTIME;
    case Row::kKernel: return ActivityType::CONCURRENT_KERNEL;
    case Row::kCopy: return ActivityType::GPU_MEMCPY;
    case Row::kFill: return ActivityType::GPU_MEMSET;
    default: return ActivityType::GPU_USER_ANNOTATION;
  }
}

struct Session final : IActivityProfilerSession {
  explicit Session(bool asked) : asked(asked) {}
  void start() override { if (asked) simulated::start_recording(); }
  void stop() override { if (asked) rows = simulated::stop_recording(); }
  std::vector<std::string> errors() override { return {}; }
  void processTrace(ActivityLogger&) override {}
  void processTrace(ActivityLogger& logger, getLinkedActivityCallback linked, int64_t, int64_t) override {
    buffer = std::make_unique<CpuTraceBuffer>();
    buffer->span = TraceSpan(0, 0, "simulated GPU");
    // One span of the GPU for each of the script's and stream, around all that was launched in it.
    std::map<std::pair<uint64_t, int>, Row> annotations;
    for (const Row& row : rows) {
      if (row.kind != Row::kAnnotation) {
        write(logger, row, row.op ? linked(static_cast<int32_t>(row.op)) : nullptr, row.name);
        continue;
      }
      auto [at, fresh] = annotations.insert({{row.op, row.stream}, row});
      at->second.start_ns = std::min(at->second.start_ns, row.start_ns);
      at->second.end_ns = std::max(at->second.end_ns, row.end_ns);
    }
    for (const auto& [key, row] : annotations) {
      const auto* span = linked(static_cast<int32_t>(row.op));
      write(logger, row, nullptr, span ? span->name() : "span");
    }
  }
  std::unique_ptr<DeviceInfo> getDeviceInfo() override { return nullptr; }
  std::vector<ResourceInfo> getResourceInfos() override { return {}; }
  std::unique_ptr<CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer); }
  void pushCorrelationId(uint64_t id) override { simulated::operators.push_back(id); }
  void popCorrelationId() override { if (!simulated::operators.empty()) simulated::operators.pop_back(); }
  void pushUserCorrelationId(uint64_t id) override { simulated::spans.push_back(id); }
  void popUserCorrelationId() override { if (!simulated::spans.empty()) simulated::spans.pop_back(); }

 private:
  void write(ActivityLogger& logger, const Row& row, const ITraceActivity* linked, const std::string& name) {
    GenericTraceActivity activity(buffer->span, type_of(row.kind), name);
    bool is_call = row.kind == Row::kCall, is_span = row.kind == Row::kAnnotation;
    activity.startTime = row.start_ns;
    activity.endTime = row.end_ns;
    activity.id = static_cast<int32_t>(is_span ? row.op : row.correlation);
    activity.device = is_call ? getpid() : row.device;
    activity.resource = static_cast<int32_t>(is_call ? row.thread : kFirstStream + row.stream);
    activity.threadId = static_cast<int32_t>(row.thread);
    activity.linked = linked;
    if (!is_span) {
      activity.flow.id = static_cast<uint32_t>(row.correlation);
      activity.flow.type = kLinkAsyncCpuGpu;
      activity.flow.start = is_call;
    }
    logger.handleGenericActivity(activity);
  }

  bool asked;
  std::vector<Row> rows;
  std::unique_ptr<CpuTraceBuffer> buffer;
};

struct Profiler final : IActivityProfiler {
  std::string title = "simulated GPU";
  std::set<ActivityType> kinds{ActivityType::CUDA_RUNTIME, ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
                               ActivityType::GPU_MEMSET, ActivityType::GPU_USER_ANNOTATION};
  const std::string& name() const override { return title; }
  const std::set<ActivityType>& availableActivities() const override { return kinds; }
  std::unique_ptr<IActivityProfilerSession> configure(const std::set<ActivityType>& asked, const Config&) override {
    return std::make_unique<Session>(asked.count(ActivityType::CONCURRENT_KERNEL) > 0);
  }
  std::unique_ptr<IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& asked, const Config& config) override {
    return configure(asked, config);
  }
};
}  // namespace

extern "C" void simulated_watch() {
  libkineto::api().registerProfilerFactory([] { return std::make_unique<Profiler>(); });
}
