// A run under way: htmx asks what is new; here is when not to ask, and what follows an answer.

const log = () => document.getElementById("log");
let following = true; // the log's end is in sight, so it stays in sight

// Nobody looks at a hidden page: it asks nothing, and at once when it is shown again.
document.body.addEventListener("htmx:beforeRequest", (event) => {
  if (document.hidden) event.preventDefault();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) htmx.trigger(document.body, "shown");
});

const lost = (isLost) => {
  const note = document.querySelector("[data-lost]");
  if (note) note.hidden = !isLost;
};
document.body.addEventListener("htmx:sendError", () => lost(true));
document.body.addEventListener("htmx:responseError", () => lost(true));
document.body.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful) lost(false);
});

document.body.addEventListener("htmx:beforeSwap", () => {
  const box = log();
  following = !box || box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
});
document.body.addEventListener("htmx:afterSettle", () => {
  const box = log();
  if (box && following) box.scrollTop = box.scrollHeight;
});
