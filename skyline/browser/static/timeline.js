"use strict";
// The timeline in Perfetto's viewer, by the messages that it takes from the page that opened it:
// https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui

const VIEWER = "https://ui.perfetto.dev";
const PATIENCE_MS = 20_000;

/** Open the viewer in a tab and hand the trace over once it answers; `say` tells how that went. */
function openTimeline(say) {
  const viewer = window.open(VIEWER);
  if (!viewer) {
    say("The browser opened no tab: allow pop-ups from this page, or save the timeline and open it there.");
    return;
  }
  const trace = fetch("timeline").then((response) => response.arrayBuffer());
  const greet = () => viewer.postMessage("PING", VIEWER);
  const greeting = setInterval(greet, 100);
  const end = () => {
    clearInterval(greeting);
    clearTimeout(limit);
    window.removeEventListener("message", answered);
  };
  const limit = setTimeout(() => {
    end();
    say("ui.perfetto.dev does not answer: save the timeline, and open it in a viewer of your own.");
  }, PATIENCE_MS);
  const answered = async (event) => {
    if (event.origin !== VIEWER || event.data !== "PONG") return;
    end();
    const perfetto = { buffer: await trace, title: document.title };
    viewer.postMessage({ perfetto }, VIEWER);
    say("The timeline is in the tab of ui.perfetto.dev.");
  };
  window.addEventListener("message", answered);
  greet();
}
