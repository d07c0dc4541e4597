;;; Does in Emacs what a person would, and writes what was to be seen to $REPORT as JSON.  -*- lexical-binding: t -*-

(require 'json)
(require 'cl-lib)

(defvar drive-seen nil)

(defun drive-saw (name value) (push (cons name value) drive-seen))

(defun drive-wait (what seconds condition)
  "Handle what comes in until CONDITION gives something; that."
  (let ((end (+ (float-time) seconds)) found)
    (while (not (setq found (funcall condition)))
      (when (> (float-time) end) (error "Waited in vain for %s" what))
      (accept-process-output nil 0.05))
    found))

(defun drive-line (part)
  (goto-char (point-min))
  (search-forward part)
  (back-to-indentation))

(defun drive-text () (buffer-substring-no-properties (point-min) (point-max)))

(defun drive-messages (part)
  "The lines of what was shown in the echo area that hold PART."
  (with-current-buffer (messages-buffer)
    (cl-remove-if-not (lambda (line) (string-match-p (regexp-quote part) line))
                      (split-string (buffer-substring-no-properties (point-min) (point-max)) "\n"))))

(defun drive-undo (before)
  "Undo the latest change as a person does, with one key."
  (undo-boundary)
  (let ((last-command nil)) (undo))
  (drive-saw 'undone (if (equal (drive-text) before) t :json-false)))

(defun drive (session)
  "Open the script, do SESSION in its buffer, report and leave."
  (setq make-backup-files nil create-lockfiles nil)
  (condition-case reason
      (progn
        (find-file (car command-line-args-left))
        (buffer-enable-undo)
        (funcall session))
    (error (drive-saw 'failed (format "%S" reason))))
  (let ((seen drive-seen) (coding-system-for-write 'utf-8))
    (with-temp-file (getenv "REPORT") (insert (json-encode seen))))
  (set-buffer-modified-p nil)
  (kill-emacs 0))
