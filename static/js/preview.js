// The effect on past days, beside the form, while one types
const form = document.getElementById("previewed");
const preview = async () => {
  const data = new FormData(form);
  data.set("preview", "1");
  const answer = await fetch(form.action, { method: "POST", body: data });
  if (answer.redirected) return;
  const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("preview");
  const shown = document.getElementById("preview");
  if (found && shown) shown.replaceWith(found);
  else if (found) form.before(found);
};
let soon;
let under = Promise.resolve();
form.addEventListener("input", () => {
  clearTimeout(soon);
  // One question at a time: the last one asked is the one that is shown.
  soon = setTimeout(() => (under = under.then(preview).catch(() => {})), 700);
});
