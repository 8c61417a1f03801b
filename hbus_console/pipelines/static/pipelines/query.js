// Ctrl+Enter, or Cmd+Enter, runs what stands in the editor.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.target.id !== "sql") return;
  event.preventDefault();
  event.target.form.requestSubmit();
});
