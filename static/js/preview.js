// The effect on past days, beside the form, while one types
const form = document.getElementById("previewed");
const preview = async () => {
  const data = new FormData(form);
  data.set("preview", "1");
  const answer = await fetch(form.action, { method: "POST", body: data });
  if (answer.redirected) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const id of ["answers", "preview"]) {
    const [fresh, shown] = [page.getElementById(id), document.getElementById(id)];
    if (fresh && shown) shown.replaceWith(fresh);
    else if (fresh) form.before(fresh);
  }
};
let soon;
let under = Promise.resolve();
document.addEventListener("input", (event) => {
  if (event.target.form !== form) return; // authors to untick stand outside it
  clearTimeout(soon);
  // One question at a time: the last one asked is the one that is shown.
  soon = setTimeout(() => (under = under.then(preview).catch(() => {})), 700);
});
