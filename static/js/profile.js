// Keywords as rows: phrase, weight, title bonus and how often it occurs. The text field stays what
// is sent; "Edit as text" shows it, for pasting. Without scripts the text is all there is.

const text = document.getElementById("id_keywords");
const counted = JSON.parse(document.getElementById("frequencies").textContent);
const LINE = /^(.*?)\s*;\s*([\d.,]+)\s*(?:;\s*([\d.,]+)\s*)?$/;

const parse = (line) => {
  const [, keyword, weight, bonus] = LINE.exec(line) ?? [null, line, "1", "0.5"];
  return { keyword: keyword.trim(), weight, bonus: bonus ?? "0.5" };
};
const written = ({ keyword, weight, bonus }) => {
  if (bonus !== "0.5") return `${keyword} ; ${weight || 0} ; ${bonus || 0}`;
  return weight === "1" ? keyword : `${keyword} ; ${weight || 0}`;
};
const rarity = (keyword) => {
  const often = counted[keyword];
  if (often === undefined || often === null) return "not counted yet";
  return `${often} in 1,000 papers, ${often < 10 ? "rare" : often < 50 ? "uncommon" : "common"}`;
};

const table = document.createElement("div");
table.className = "keyword-rows";
table.innerHTML = `<table><thead><tr><th scope="col">Word or phrase</th><th scope="col">Weight</th>
  <th scope="col">In a title</th><th scope="col">Occurs in</th><th scope="col"><span class="unseen">Remove</span></th></tr></thead>
  <tbody></tbody></table><p class="acts"><button type="button" data-add>Add a keyword</button>
  <button type="button" data-text aria-expanded="false">Edit as text</button></p>`;
const body = table.querySelector("tbody");

const rows = () =>
  [...body.rows].map((row) => {
    const [keyword, weight, bonus] = [...row.querySelectorAll("input")].map((one) => one.value.trim());
    return { keyword, weight, bonus };
  });
const store = () => {
  text.value = rows().filter((row) => row.keyword).map(written).join("\n");
};
const field = (label, value, type = "text") => {
  const input = Object.assign(document.createElement("input"), { type, value });
  input.setAttribute("aria-label", label);
  if (type === "number") Object.assign(input, { min: 0, max: 100, step: "any" });
  return input;
};
const append = ({ keyword, weight, bonus }) => {
  const row = body.insertRow();
  const often = document.createElement("span");
  often.textContent = keyword ? rarity(keyword) : "";
  const remove = Object.assign(document.createElement("button"), { type: "button", textContent: "Remove" });
  remove.setAttribute("aria-label", `Remove ${keyword || "this keyword"}`);
  remove.addEventListener("click", () => {
    row.remove();
    store();
  });
  const phrase = field("Word or phrase", keyword);
  phrase.addEventListener("input", () => (often.textContent = rarity(phrase.value.trim())));
  const cells = [phrase, field("Weight", weight, "number"), field("In a title", bonus, "number"), often, remove];
  for (const one of cells) row.insertCell().append(one);
  return phrase;
};
const draw = () => {
  body.replaceChildren();
  for (const line of text.value.split("\n")) if (line.trim()) append(parse(line));
  if (!body.rows.length) append(parse(""));
};

table.addEventListener("input", store);
table.querySelector("[data-add]").addEventListener("click", () => append(parse("")).focus());
table.querySelector("[data-text]").addEventListener("click", (event) => {
  const asText = text.hidden;
  if (!asText) draw();
  text.hidden = !asText;
  table.querySelector("table").hidden = asText;
  table.querySelector("[data-add]").hidden = asText;
  event.target.textContent = asText ? "Edit as rows" : "Edit as text";
  event.target.setAttribute("aria-expanded", asText);
});
draw();
text.hidden = true;
text.before(table);

// The effect on past days, beside the form, while one types
const form = text.form;
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
