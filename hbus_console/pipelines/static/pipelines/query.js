// Ctrl+Enter, or Cmd+Enter, runs what stands in the editor.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.target.id !== "sql") return;
  event.preventDefault();
  event.target.form.requestSubmit();
});

// What is saved is what stands in the editor when the sheet opens, not what the page was loaded with.
document.addEventListener("beforetoggle", (event) => {
  if (event.target.id !== "save-query" || event.newState !== "open") return;
  document.getElementById("saved-sql").value = document.getElementById("sql").value;
}, true);
